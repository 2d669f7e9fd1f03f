// Inspections as CSV and JSON: all that a filter leaves, a few hundred at a time.
#include <fmt/format.h>

#include <utility>

#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/csv.h"
#include "serve/http_stream.h"
#include "serve/service.h"
#include "serve/store_regions.h"

namespace contcore {
namespace {

constexpr int kMostExports = 16;
constexpr std::size_t kExportedAtOnce = 500;

constexpr std::string_view kCsvHead =
    "id,time,station,task,source,verdict,reason,score,threshold,latency_ms,width,height,regions,"
    "feedback,feedback_time,learned,has_image\r\n";

// Numbers have the fewest digits that give them back.
std::string csv_row(const StoredInspection& row) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n", row.id, row.time,
                     csv_text(row.station), csv_text(row.task), csv_text(row.source), row.verdict,
                     csv_text(row.reason), row.score,
                     row.threshold ? fmt::format("{}", *row.threshold) : "", row.latency_ms,
                     row.width, row.height, csv_text(regions_text(row.regions)), row.feedback,
                     row.feedback_time, row.learned, row.has_image);
}

// Counts those that are under way.
class Place {
 public:
  explicit Place(std::atomic<int>& taken) : taken_(taken) {
    if (++taken_ <= kMostExports) return;
    --taken_;
    throw Refusal{503, "as many exports as may be are under way; try again when one has ended"};
  }
  ~Place() { --taken_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::atomic<int>& taken_;
};

}  // namespace

// What one piece of an export leaves for the next.
struct Api::Export {
  Export(std::atomic<int>& taken, InspectionFilter what, bool csv)
      : place(taken), filter(std::move(what)), is_csv(csv) {}
  Place place;
  InspectionFilter filter;
  bool is_csv;
  bool begun = false;
  bool ended = false;
  bool listed = false;  // there was a row
};

// Empty at the end, and for a client that has left.
std::string Api::next_piece(Export& work, HttpStream& stream) {
  std::string piece;
  if (!std::exchange(work.begun, true)) {
    piece = work.is_csv ? std::string(kCsvHead) : "{\"inspections\": [";
  }
  while (piece.empty() && !work.ended && !stream.is_closed()) {
    const StoredPage page = store_.page(work.filter);
    for (const StoredInspection& row : page.inspections) {
      if (work.is_csv) {
        piece += csv_row(row);
      } else {
        piece += std::exchange(work.listed, true) ? ",\n" : "\n";
        piece += shown(row).dump(-1, ' ', false, Json::error_handler_t::replace);
      }
    }
    work.filter.before = page.next;
    work.ended = !page.next;
    if (work.ended && !work.is_csv) piece += "\n]}\n";
  }
  return piece;
}

HttpResponse Api::export_as(const HttpRequest& request, bool csv) {
  InspectionFilter filter = filter_of(request);
  if (request.query.contains("limit")) throw Refusal{400, "an export has no limit"};
  filter.limit = kExportedAtOnce;
  std::string name = "inspections";
  for (const auto& part : {filter.station, filter.task, filter.verdict, filter.since}) {
    if (part) name += file_label({part->substr(0, 40)});
  }
  store_.narrow(filter);
  const auto work = std::make_shared<Export>(exports_, std::move(filter), csv);
  HttpResponse response;
  response.type = csv ? "text/csv; charset=utf-8" : "application/json";
  response.headers.emplace_back("Content-Disposition", fmt::format("attachment; filename=\"{}.{}\"",
                                                                   name, csv ? "csv" : "json"));
  response.stream = std::make_shared<HttpStream>([this, work](const auto& stream) {
    const bool taken = query_->submit([this, work, stream](Compute&) {
      try {
        stream->give(next_piece(*work, *stream));
      } catch (const std::exception& error) {
        if (options_.note) options_.note(fmt::format("an export was broken off: {}", error.what()));
        stream->fail();
      }
    });
    if (!taken) stream->fail();
  });
  return response;
}

HttpResponse Api::export_csv(const HttpRequest& request, const Params& /*params*/,
                             Compute& /*compute*/) {
  return export_as(request, true);
}

HttpResponse Api::export_json(const HttpRequest& request, const Params& /*params*/,
                              Compute& /*compute*/) {
  return export_as(request, false);
}

}  // namespace contcore
