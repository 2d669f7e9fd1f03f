#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "contcore/error.h"
#include "evaluate/clipped.h"
#include "evaluate/dataset_layouts.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using ListJson = nlohmann::json;

constexpr std::size_t kMostListBytes = std::size_t{256} << 20;
constexpr int kMostDepth = 16;
constexpr char kFolder[] = "realiad_jsons";

struct Entry {
  std::string anomaly_class;
  std::string image;
  std::string mask;  // empty: none
};

// A product's list, taken from the JSON while it is parsed: of what the format does not know,
// nothing is kept, and of what it knows, only the texts. So memory is bounded by the file's size,
// whatever is in it.
//
//   {"meta": {"normal_class": "OK", "prefix": "audiojack/", …},
//    "train": [{"anomaly_class": "OK", "image_path": "OK/….jpg", "mask_path": null, …}, …],
//    "test": […]}
class List {
 public:
  explicit List(const std::string& file) : file_(file) {
    const std::vector<std::uint8_t> bytes =
        read_whole(file, "a Real-IAD list of images", kMostListBytes);
    try {
      const ListJson rest =
          ListJson::parse(bytes.begin(), bytes.end(),
                          [this](int depth, ListJson::parse_event_t event, ListJson& parsed) {
                            return look(depth, event, parsed);
                          });
      if (!rest.is_object()) refuse("is not a JSON object");
    } catch (const ListJson::exception& e) {
      refuse(fmt::format("is not JSON: {}", clipped(e.what(), 200)));
    }
    for (const char* key : {"meta", "train", "test"}) {
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) {
        refuse(fmt::format("has no \"{}\"", key));
      }
    }
  }

  const std::string& prefix() const { return prefix_; }
  const std::string& normal_class() const { return normal_class_; }
  const std::vector<Entry>& train() const { return train_; }
  const std::vector<Entry>& test() const { return test_; }

  static std::string place(const char* section, std::size_t i) {
    return fmt::format("\"{}\", entry {}", section, i + 1);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: {}; expected {{\"meta\": {{\"normal_class\", \"prefix\"}}, "
                            "\"train\": […], \"test\": […]}} as in Real-IAD",
                            file_, what));
  }

 private:
  using Event = ListJson::parse_event_t;

  // Called by the parser; depth is 0 for the whole. Returns whether to keep what was parsed.
  bool look(int depth, Event event, ListJson& parsed) {
    if (depth > kMostDepth) refuse("is nested too deeply");
    if (depth == 1 && event == Event::key) return start_section(parsed.get_ref<std::string&>());
    if (depth == 0 || section_.empty()) return true;
    const bool begins =
        event == Event::object_start || event == Event::array_start || event == Event::value;
    const bool list = section_ != "meta";
    if (depth == 1 && begins && event != (list ? Event::array_start : Event::object_start)) {
      refuse(fmt::format("\"{}\" is not {}", section_, list ? "a list" : "an object"));
    }
    const int fields = list ? 3 : 2;  // the depth of what is named below
    if (depth == 2 && list && begins && event != Event::object_start) {
      refuse(fmt::format("{} is not an object", here()));
    }
    if (depth == fields && event == Event::key) return is_known(parsed.get_ref<std::string&>());
    if (depth >= fields && event != Event::value) return false;  // no field of ours has parts
    if (depth == fields - 1 && event == Event::object_end) {
      list ? add_entry(parsed) : read_meta(parsed);
      return false;
    }
    return true;
  }

  bool start_section(const std::string& key) {
    section_ = key == "meta" || key == "train" || key == "test" ? key : "";
    if (section_.empty()) return false;
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
      refuse(fmt::format("has \"{}\" twice", key));
    }
    seen_.push_back(key);
    return true;
  }

  bool is_known(const std::string& key) const {
    if (section_ == "meta") return key == "normal_class" || key == "prefix";
    return key == "anomaly_class" || key == "image_path" || key == "mask_path";
  }

  std::string here() const {
    return place(section_.c_str(), section_ == "train" ? train_.size() : test_.size());
  }

  std::string text(const ListJson& object, const char* key, const std::string& where) const {
    const auto found = object.find(key);
    if (found != object.end() && found->is_string()) return found->get<std::string>();
    refuse(fmt::format("{} has no text \"{}\"", where, key));
  }

  void read_meta(const ListJson& object) {
    normal_class_ = text(object, "normal_class", "\"meta\"");
    prefix_ = text(object, "prefix", "\"meta\"");
  }

  void add_entry(const ListJson& object) {
    const auto mask = object.find("mask_path");
    const bool none = mask == object.end() || mask->is_null();
    Entry entry{text(object, "anomaly_class", here()), text(object, "image_path", here()),
                none ? "" : text(object, "mask_path", here())};
    (section_ == "train" ? train_ : test_).push_back(std::move(entry));
  }

  std::string file_;
  std::string section_;  // empty: one that the format does not know
  std::vector<std::string> seen_;
  std::string prefix_;
  std::string normal_class_;
  std::vector<Entry> train_;
  std::vector<Entry> test_;
};

// As downloaded, the lists lie one folder deeper, beside others for other experiments.
std::optional<fs::path> lists_in(const fs::path& folder) {
  for (const fs::path& lists : {folder / kFolder, folder / kFolder / kFolder}) {
    if (is_folder(lists) && !files_in(lists, ".json").empty()) return lists;
  }
  return std::nullopt;
}

std::optional<fs::path> lists_beside(const fs::path& root) {
  const fs::path whole = whole_path(root);
  if (!whole.has_filename()) return std::nullopt;  // nothing is beside the root of all
  return lists_in(whole.parent_path());
}

fs::path images_in(const fs::path& root) {
  for (const char* name : {"realiad_1024", "realiad_512", "realiad_256"}) {
    if (is_folder(root / name)) return root / name;
  }
  return root;
}

Product read_product(const fs::path& file, const fs::path& images) {
  const List list(file.string());
  ListedFiles files(file.string(), images);
  const auto inside = [&](const std::string& name) {
    // An empty name must not become the folder's.
    return name.empty() ? name : (fs::path(list.prefix()) / name).string();
  };
  Product product;
  product.name = file.stem().string();
  for (std::size_t i = 0; i < list.train().size(); ++i) {
    const Entry& entry = list.train()[i];
    const std::string place = List::place("train", i);
    if (entry.anomaly_class != list.normal_class()) {
      list.refuse(fmt::format("{} is '{}', where only '{}' belongs", place,
                              clipped(entry.anomaly_class), clipped(list.normal_class())));
    }
    product.train.push_back(files.add(inside(entry.image), place));
  }
  for (std::size_t i = 0; i < list.test().size(); ++i) {
    const Entry& entry = list.test()[i];
    const std::string place = List::place("test", i);
    const bool defect = entry.anomaly_class != list.normal_class();
    const bool has_mask = defect && !entry.mask.empty();
    product.test.push_back({files.add(inside(entry.image), place),
                            defect ? entry.anomaly_class : "good", defect,
                            has_mask ? files.add(inside(entry.mask), place) : ""});
  }
  files.check();
  return product;
}

}  // namespace

bool looks_like_real_iad(const fs::path& root) { return lists_in(root).has_value(); }

bool looks_like_real_iad_images(const fs::path& root) { return lists_beside(root).has_value(); }

void read_real_iad(const fs::path& root, Dataset& dataset) {
  std::optional<fs::path> lists = lists_in(root);
  if (!lists) lists = lists_beside(root);
  if (!lists) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: no {}/PRODUCT.json in it or beside it", root.string(), kFolder));
  }
  const fs::path images = images_in(root);
  for (const fs::path& file : files_in(*lists, ".json")) {
    dataset.products.push_back(read_product(file, images));
  }
}

}  // namespace contcore
