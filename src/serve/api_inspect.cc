// Inspections: made, kept, looked at again. In: an image's bytes. Out: the verdict, also when it
// cannot be kept. Refuses what is no image, and an empty memory.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/file.h"
#include "base/rows.h"
#include "contcore/error.h"
#include "detector/heat_scale.h"
#include "image/pixels.h"
#include "image/region_mask.h"
#include "serve/api_common.h"
#include "serve/clock.h"
#include "serve/outputs.h"
#include "serve/service.h"
#include "serve/store_checks.h"
#include "serve/thumbnail.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLayerSide = 512;  // longest side of a map that is sent
constexpr std::size_t kMostListed = 500;
constexpr std::size_t kLargestSide = 1024;  // of a small image
constexpr double kLatencyBounds[] = {5, 10, 20, 30, 50, 75, 100, 150, 250, 500, 1000, 2500};

std::string given(const HttpRequest& request, const char* name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

std::string one_of(const std::string& name, const std::string& value,
                   std::initializer_list<std::string_view> known) {
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    throw Refusal{400, fmt::format("{} is {}", name, fmt::join(known, ", "))};
  }
  return value;
}

std::string label(const HttpRequest& request, const char* name, std::size_t longest) {
  std::string text = given(request, name);
  if (text.size() > longest) {
    throw Refusal{400, fmt::format("{} has at most {} bytes", name, longest)};
  }
  return text;
}

// Whether the memory judges by no part of images that is this one.
bool is_seen_otherwise(const Memory& memory, const std::string& task, const SharedRegion& seen) {
  if (memory.size() == 0 || (!task.empty() && !memory.find_task(task))) return false;
  const std::vector<SharedRegion> regions = regions_to_see(memory, task);
  return std::none_of(regions.begin(), regions.end(),
                      [&](const SharedRegion& region) { return same_region(region, seen); });
}

}  // namespace

Patches Api::extract(const Image& picture, Compute& compute, const SharedRegion& region) const {
  try {
    return live_.extractor().extract(picture, compute, region);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    throw Refusal{422, error.what()};
  }
}

// Of the first that is not kept, and the first that is again: in between all say the same.
void Api::note_kept(const std::string& why_not) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (why_not.empty() != unkept_.empty() && options_.note) {
    options_.note(why_not.empty() ? "inspections are kept again"
                                  : "inspections are not kept: " + why_not);
  }
  unkept_ = why_not;
}

// Once: whoever reads the log learns why inspections take longer now.
void Api::note_gpu() {
  if (noted_gpu_) return;
  const std::string failure = gpu_failure();
  if (failure.empty()) return;
  noted_gpu_ = true;
  if (options_.note) options_.note("the processor goes on without the GPU: " + failure);
}

// Often, whatever inspections and learning do: what the power takes is what came since.
void Api::keep() {
  note_gpu();
  try {
    store_.flush();
  } catch (const std::exception& error) {
    note_kept(error.what());
  }
}

// Through the region that it is to be judged by.
Patches Api::see(const Image& picture, const std::string& task, Compute& compute) const {
  std::vector<SharedRegion> regions;
  {
    const auto memory = live_.memory();
    if (memory->size() == 0) {
      throw Refusal{409, "the memory is empty; learn good images first"};
    }
    if (!task.empty() && !memory->find_task(task)) {
      throw Refusal{400, fmt::format("there is no task '{}'", task)};
    }
    regions = regions_to_see(*memory, task);
  }
  const auto resemblance_of = [&](const Patches& view) {
    return resemblance(*live_.memory(), view);
  };
  try {
    return best_view(live_.extractor(), picture, regions, resemblance_of, compute);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    throw Refusal{422, error.what()};
  }
}

StoredInspection Api::inspect_image(std::string_view bytes, const std::string& asked,
                                    const std::string& source, const std::string& station,
                                    Compute& compute, Turns::Turn* turn) {
  const Clock::time_point start = Clock::now();
  const std::string task = product_of(station, asked);
  const Image picture = decode(bytes);
  StoredInspection row;
  row.source = source;
  row.station = station;
  return inspect_picture(
      picture, task, [bytes] { return bytes; }, std::move(row), start, compute, turn);
}

StoredInspection Api::inspect_picture(const Image& picture, const std::string& task,
                                      const std::function<std::string_view()>& bytes,
                                      StoredInspection row, Clock::time_point start,
                                      Compute& compute, Turns::Turn* turn) {
  Patches patches = see(picture, task, compute);
  std::vector<float> distances;
  {
    auto memory = live_.memory();  // held for the search alone
    while (is_seen_otherwise(*memory, task, patches.grid().region())) {
      memory = {};  // forgotten meanwhile, and learned again through another region
      patches = see(picture, task, compute);
      memory = live_.memory();
    }
    distances = memory->distances(patches.vectors.view(), compute);
    InspectOptions options;
    options.false_alarms = options_.false_alarms;
    options.strangers = options_.strangers;
    options.task = task;
    const Inspection judged = judge(*memory, patches, distances, options, compute);
    row.score = judged.score;
    if (judged.task) {
      row.task = memory->tasks()[*judged.task].name;
      if (judged.threshold) row.threshold = judged.threshold->score;
    }
    row.verdict = verdict(judged);
    row.reason = judged.reason;
    row.regions = judged.regions;
    row.regions.resize(std::min(row.regions.size(), kMostRegions));
  }
  row.width = static_cast<std::uint32_t>(picture.width);
  row.height = static_cast<std::uint32_t>(picture.height);
  const auto date = [&] {
    row.time = utc_now_ms();
    row.latency_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  date();
  try {
    const std::string_view kept = bytes();
    if (turn != nullptr) {
      turn->wait();
      date();
    }
    row.id = store_.add(row, kept, image_type(kept), on_grid(distances, patches.grid()),
                        static_cast<std::uint32_t>(patches.grid_width),
                        static_cast<std::uint32_t>(patches.grid_height));
    row.has_image = true;
    promises_.changed(row.task);
    note_kept("");
  } catch (const Error& error) {
    // Inspecting goes on when the disk does not.
    note_kept(error.what());
    metrics_.counter("contcore_unkept_inspections_total", "Inspections that were never kept").add();
  }
  outputs_.came(row);
  metrics_.counter("contcore_inspections_total", "Images inspected", {{"verdict", row.verdict}})
      .add();
  metrics_
      .histogram("contcore_inspection_milliseconds", "From the image's bytes to the verdict",
                 kLatencyBounds)
      .observe(row.latency_ms);
  return row;
}

bool Api::inspect_file(const std::string& path, const std::string& name, WatchHooks::Done done) {
  const bool empty = live_.memory()->size() == 0;
  if (empty && !said_empty_ && options_.note) {
    options_.note(
        fmt::format("{}: waits, and others with it: the memory is empty; learn good "
                    "images first",
                    path));
  }
  said_empty_ = empty;
  if (empty) return false;
  const auto turn = file_turns_.take();
  return inspectors_->submit([this, path, name, turn, done = std::move(done)](Compute& compute) {
    const std::optional<FileMark> mark = mark_of(path);
    std::vector<std::uint8_t> bytes;
    std::string trouble;
    try {
      bytes = read_whole(path, "an image (--max-body)", options_.http.body);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    // Half a file can look like an image: it is looked at when it is whole. One that was taken away
    // when it had been read is whole.
    const std::optional<FileMark> after = mark_of(path);
    if (!mark || (after ? after != mark : bytes.size() != mark->bytes)) {
      done(std::nullopt);
      return;
    }
    if (trouble.empty()) trouble = inspect_bytes(bytes, path, name, compute, *turn);
    metrics_
        .counter("contcore_watch_files_total", "Files of the watched folder dealt with",
                 {{"result", trouble.empty() ? "inspected" : "unreadable"}})
        .add();
    if (!trouble.empty()) note_file(trouble);
    done(mark);
  });
}

// A part without a verdict: nothing is sent on for it.
void Api::note_file(const std::string& trouble) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++unread_files_;
    unread_file_ = trouble;
    unread_at_ = Clock::now();
  }
  if (options_.note) options_.note(trouble);
}

// Returns why it cannot be inspected; empty: it was.
std::string Api::inspect_bytes(const std::vector<std::uint8_t>& bytes, const std::string& path,
                               const std::string& name, Compute& compute, Turns::Turn& turn) {
  try {
    const StoredInspection row =
        inspect_image({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "",
                      name.substr(0, 200), options_.station, compute, &turn);
    if (row.id == 0 && options_.note) {
      options_.note(fmt::format("{}: {} (score {}), not kept", path, row.verdict, row.score));
    }
    return "";
  } catch (const Refusal& refused) {
    return fmt::format("{}: {}", path, refused.detail);
  } catch (const std::exception& error) {
    return fmt::format("{}: {}", path, error.what());
  }
}

void Api::show_watch(const WatchState& state) {
  watch_gone_ = !state.there;
  metrics_.gauge("contcore_watch_waiting", "Files of the watched folder that wait")
      .set(static_cast<double>(state.waiting));
  metrics_.gauge("contcore_watch_up", "1 while the watched folder is there")
      .set(state.there ? 1 : 0);
}

HttpResponse Api::inspect(const HttpRequest& request, const Params& /*params*/, Compute& compute) {
  const std::string task = label(request, "task", 200);
  const std::string source = label(request, "source", 200);
  const std::string station = given(request, "station");
  if (!station.empty()) check_station(station);
  return created(inspect_image(image_of(request), task, source, station, compute));
}

HttpResponse Api::created(const StoredInspection& row) const {
  if (row.id == 0) return json_response(200, shown(row));  // nothing was created
  HttpResponse response = json_response(201, shown(row));
  response.headers.emplace_back("Location", fmt::format("/v1/inspections/{}", row.id));
  return response;
}

InspectionFilter filter_of(const HttpRequest& request) {
  InspectionFilter filter;
  for (const auto& [name, value] : request.query) {
    if (name == "verdict") {
      filter.verdict = one_of(name, value, {"good", "defect", "unknown", "uncalibrated"});
    } else if (name == "task") {
      filter.task = value;
    } else if (name == "source") {
      filter.source = value;
    } else if (name == "station") {
      filter.station = value;
    } else if (name == "feedback") {
      filter.feedback = one_of(name, value, {"none", "good", "defect"});
      if (value == "none") filter.feedback = "";
    } else if (name == "since" || name == "until") {
      const std::string time = with_milliseconds(value);
      if (!is_stored_time(time)) {
        throw Refusal{400, fmt::format("'{:.40}' is no time; write it in UTC like "
                                       "2024-05-31T23:59:59Z",
                                       value)};
      }
      (name == "since" ? filter.since : filter.until) = time;
    } else if (name == "before") {
      filter.before = number_of(value, 400);
    } else if (name == "after") {
      filter.after = number_of(value, 400);
    } else if (name == "limit") {
      filter.limit = static_cast<std::size_t>(number_of(value, 400));
    } else {
      throw Refusal{400, fmt::format("there is no filter '{:.40}'", name)};
    }
  }
  if (filter.limit < 1 || filter.limit > kMostListed) throw Refusal{400, "limit is from 1 to 500"};
  if (filter.since && filter.until && *filter.since >= *filter.until) {
    throw Refusal{400, "since is not before until"};
  }
  return filter;
}

HttpResponse Api::inspections(const HttpRequest& request, const Params& /*params*/,
                              Compute& /*compute*/) {
  InspectionFilter filter = filter_of(request);
  Json list = Json::array();
  std::vector<StoredInspection> rows;
  try {
    store_.narrow(filter);
    rows = store_.list(filter);
  } catch (const Error& error) {
    throw Refusal{400, error.what()};
  }
  for (const StoredInspection& row : rows) list.push_back(shown(row));
  const Json next = rows.size() < filter.limit ? Json(nullptr) : Json(rows.back().id);
  return json_response(200, {{"inspections", std::move(list)}, {"next", next}});
}

StoredInspection Api::stored(const Params& params) {
  auto row = store_.find(number_of(params[0], 404));
  if (!row) throw Refusal{404, "there is no such inspection, or not any more"};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto good = good_.find(row->id); good != good_.end() && !row->learned) {
    row->learned = true;
    row->feedback = "good";
    row->feedback_time = good->second.time;
  }
  return *row;
}

HttpResponse Api::inspection(const HttpRequest& /*request*/, const Params& params,
                             Compute& /*compute*/) {
  return json_response(200, shown(stored(params)));
}

HttpResponse Api::image(const HttpRequest& request, const Params& params, Compute& /*compute*/) {
  const std::string given_side = given(request, "side");
  const auto side = given_side.empty() ? 0 : static_cast<std::size_t>(number_of(given_side, 400));
  if (!given_side.empty() && (side < 16 || side > kLargestSide)) {
    throw Refusal{400, "side is from 16 to 1024"};
  }
  auto kept = store_.image(stored(params).id);
  if (!kept) throw Refusal{404, "its image is not kept any more"};
  HttpResponse response;
  response.type = side == 0 ? std::move(kept->type) : "image/jpeg";
  response.body = side == 0 ? std::move(kept->bytes) : thumbnail(kept->bytes, side);
  response.headers = {{"Cache-Control", "private, max-age=86400, immutable"},
                      {"Content-Security-Policy", "default-src 'none'; sandbox"}};
  return response;
}

namespace {

// Of the size in which layers are sent.
Image small_picture_of(const StoredInspection& row) {
  const double longer = std::max(row.width, row.height);
  const double scale = std::min(1.0, static_cast<double>(kLayerSide) / longer);
  const auto side = [&](std::uint32_t pixels) {
    return std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(pixels) * scale));
  };
  return blank_image(side(row.width), side(row.height));
}

// The same in the pixels of a small picture. Of tiles there are as many pixels as such a picture
// has use for, and not all of a large image's.
void make_small(NetworkInput& input, const StoredMap& kept, const StoredInspection& row,
                const Image& small) {
  const auto part = [](std::size_t pixels, std::uint32_t of) {
    return static_cast<double>(pixels) / static_cast<double>(of);
  };
  input.left *= part(small.width, row.width);
  input.right *= part(small.width, row.width);
  input.top *= part(small.height, row.height);
  input.bottom *= part(small.height, row.height);
  if (input.tile == 0) return;
  constexpr std::size_t kCell = 4;  // pixels of a patch
  const std::size_t step = std::max<std::size_t>(1, input.width / kept.grid_w);
  input.tile = input.tile * kCell / step;
  input.width = kCell * kept.grid_w;
  input.height = kCell * kept.grid_h;
}

}  // namespace

// As the inspection saw it, unless its task has gone or another has its name.
std::shared_ptr<const GridRegion> Api::inside_of(const StoredInspection& row, const StoredMap& kept,
                                                 const NetworkInput& input) const {
  const SharedRegion region = live_.memory()->region_of(row.task);
  if (!region || !fits_region(*region, row.width, row.height)) return nullptr;
  auto inside = std::make_shared<GridRegion>();
  inside->region = region;
  inside->places =
      places_touched(region_rows(*region, row.width, row.height), input, kept.grid_w, kept.grid_h);
  return inside->places.empty() ? nullptr : inside;
}

Api::Layers Api::layers(const StoredInspection& row) {
  const auto kept = store_.map(row.id);
  if (!kept) throw Refusal{404, "its map is not kept any more"};
  const Image small = small_picture_of(row);
  NetworkInput input = live_.extractor().input_of(row.width, row.height);
  const auto inside = inside_of(row, *kept, input);
  make_small(input, *kept, row, small);
  const PatchGrid grid{kept->grid_w, kept->grid_h, input.width, input.height, input.tile, inside};
  Layers result{
      to_original(anomaly_map(inside ? choose(kept->patches, inside->places) : kept->patches, grid),
                  input, small.width, small.height),
      0};
  if (inside) clear_outside(result.map, region_rows(*inside->region, small.width, small.height));
  const float peak = *std::max_element(result.map.values.begin(), result.map.values.end());
  result.level = outline_level(score_of(live_.memory()->source), row.score, row.threshold, peak);
  return result;
}

namespace {

HttpResponse png(const std::vector<std::uint8_t>& bytes) {
  HttpResponse response;
  response.type = "image/png";
  response.body.assign(bytes.begin(), bytes.end());
  response.headers = {{"Cache-Control", "private, max-age=86400, immutable"}};
  return response;
}

}  // namespace

HttpResponse Api::map(const HttpRequest& /*request*/, const Params& params, Compute& /*compute*/) {
  const Layers found = layers(stored(params));
  const HeatRange range = heat_range(found.map, found.level);
  return png(heat_png(found.map, range.low, range.high));
}

HttpResponse Api::outline(const HttpRequest& /*request*/, const Params& params,
                          Compute& /*compute*/) {
  const Layers found = layers(stored(params));
  return png(outline_png(found.map, found.level));
}

// The region of interest that its task has, outlined.
HttpResponse Api::region(const HttpRequest& /*request*/, const Params& params,
                         Compute& /*compute*/) {
  const StoredInspection row = stored(params);
  const SharedRegion region = live_.memory()->region_of(row.task);
  if (!region || !fits_region(*region, row.width, row.height)) {
    throw Refusal{404, "its task has no region of interest, or has it of images of another shape"};
  }
  const Image small = small_picture_of(row);
  Map map{small.width, small.height, std::vector<float>(small.width * small.height, 1.0F)};
  clear_outside(map, region_rows(*region, small.width, small.height));
  return png(outline_png(map, 0.5F));
}

}  // namespace contcore
