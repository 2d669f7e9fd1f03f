#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string_view>

#include "base/file.h"
#include "contcore/error.h"
#include "evaluate/clipped.h"
#include "evaluate/dataset_layouts.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostCsvBytes = std::size_t{64} << 20;
constexpr std::size_t kFields = 5;
constexpr char kColumns[] = "object,split,label,image,mask";

fs::path list_in(const fs::path& root) { return root / "split_csv" / "1cls.csv"; }

// Rows of comma-separated fields, which may stand in quotes ("" is a quote in them).
class Rows {
 public:
  Rows(std::string file, std::string_view text) : file_(std::move(file)), rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  /// The next row that is not blank; false at the end.
  bool next(std::vector<std::string>& fields) {
    while (skip("\r\n") || skip("\n")) ++next_line_;
    line_ = next_line_;
    fields.clear();
    if (rest_.empty()) return false;
    do {
      // More fields are never kept: a row may be the whole file.
      if (fields.size() == kFields) refuse(fmt::format("more than {} fields", kFields));
      fields.push_back(skip("\"") ? quoted() : plain());
    } while (skip(","));
    if (!rest_.empty() && !skip("\r\n") && !skip("\n")) refuse("a quote inside a field");
    ++next_line_;
    if (fields.size() != kFields) {
      refuse(fmt::format("{} fields rather than {}", fields.size(), kFields));
    }
    return true;
  }

  std::string place() const { return fmt::format("line {}", line_); }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: {}: {}; expected rows of {}", file_, place(), what, kColumns));
  }

 private:
  bool skip(std::string_view mark) {
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }

  std::string take(std::size_t count) {
    std::string taken(rest_.substr(0, count));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string plain() {
    std::string field = take(rest_.find_first_of(",\n\""));
    if (rest_.starts_with("\n") && field.ends_with('\r')) field.pop_back();
    return field;
  }

  std::string quoted() {
    std::string field;
    for (;;) {
      const std::size_t quote = rest_.find('"');
      if (quote == rest_.npos) refuse("a quote that does not end");
      for (const char c : rest_.substr(0, quote)) next_line_ += c == '\n' ? 1 : 0;
      field += take(quote);
      skip("\"");
      if (!skip("\"")) return field;
      field += '"';
    }
  }

  std::string file_;
  std::string_view rest_;
  std::size_t line_ = 1;       // where the row begins
  std::size_t next_line_ = 1;  // where the reader is
};

bool one_of(const Rows& rows, const std::string& value, const char* yes, const char* no) {
  if (value != yes && value != no) {
    rows.refuse(fmt::format("'{}' is neither {} nor {}", clipped(value), yes, no));
  }
  return value == yes;
}

// Such as a file may have: reports are named after products.
bool is_name(const std::string& text) {
  constexpr std::string_view kForbidden("/\0", 2);
  return !text.empty() && text != "." && text != ".." &&
         text.find_first_of(kForbidden) == text.npos;
}

void add_row(const Rows& rows, const std::vector<std::string>& fields, ListedFiles& files,
             Product& product) {
  const bool train = one_of(rows, fields[1], "train", "test");
  const bool defect = one_of(rows, fields[2], "anomaly", "normal");
  if (train && defect) rows.refuse("an anomaly to train with, where only normal images belong");
  std::string image = files.add(fields[3], rows.place());
  if (train) {
    product.train.push_back(std::move(image));
    return;
  }
  const bool has_mask = defect && !fields[4].empty();
  product.test.push_back({std::move(image), defect ? "anomaly" : "good", defect,
                          has_mask ? files.add(fields[4], rows.place()) : ""});
}

}  // namespace

bool looks_like_visa(const fs::path& root) { return is_file(list_in(root)); }

void read_visa(const fs::path& root, Dataset& dataset) {
  const std::string list = list_in(root).string();
  const std::vector<std::uint8_t> bytes = read_whole(list, "VisA's list of images", kMostCsvBytes);
  Rows rows(list, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  ListedFiles files(list, root);
  std::vector<std::string> fields;
  if (!rows.next(fields) ||
      fields != std::vector<std::string>{"object", "split", "label", "image", "mask"}) {
    rows.refuse("these are not the columns");
  }
  std::map<std::string, Product> products;
  while (rows.next(fields)) {
    if (!is_name(fields[0])) {
      rows.refuse(fmt::format("'{}' cannot be the name of an object", clipped(fields[0])));
    }
    add_row(rows, fields, files, products[fields[0]]);
  }
  files.check();
  for (auto& [name, product] : products) {
    product.name = name;
    dataset.products.push_back(std::move(product));
  }
}

}  // namespace contcore
