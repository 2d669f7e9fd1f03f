#include "picture_places.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>

#include "contcore/error.h"

namespace contcore::app {
namespace {

namespace fs = std::filesystem;

// The folder that all files have in common.
fs::path common_folder(const std::vector<std::string>& files) {
  fs::path common = fs::path(files.at(0)).parent_path();
  for (const std::string& file : files) {
    const fs::path folder = fs::path(file).parent_path();
    fs::path same;
    for (auto a = common.begin(), b = folder.begin();
         a != common.end() && b != folder.end() && *a == *b; ++a, ++b) {
      same /= *a;
    }
    common = same;
  }
  return common;
}

// The files' paths below that folder; none leads out of it.
std::vector<fs::path> paths_inside(const std::vector<std::string>& files) {
  const fs::path common = common_folder(files);
  std::vector<fs::path> paths;
  for (const std::string& file : files) {
    fs::path& inside = paths.emplace_back();
    for (const fs::path& part : fs::path(file).lexically_relative(common)) {
      if (part != ".." && part != "/") inside /= part;
    }
  }
  return paths;
}

fs::path real_folder(const fs::path& file) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(file, error).parent_path(), error);
  return error ? file.parent_path() : folder;
}

void refuse_among_images(const std::string& folder, const std::vector<std::string>& images,
                         const std::vector<std::string>& places) {
  std::set<fs::path> of_images;
  for (const std::string& image : images) of_images.insert(real_folder(image));
  for (const std::string& place : places) {
    if (!of_images.contains(real_folder(place))) continue;
    throw Error(Error::Kind::kUsage,
                fmt::format("--heatmaps {}: pictures would lie among the images and could replace "
                            "some; name another folder",
                            folder));
  }
}

}  // namespace

std::vector<std::string> picture_places(const std::string& folder,
                                        const std::vector<std::string>& images) {
  const std::vector<fs::path> paths = paths_inside(images);
  std::map<fs::path, std::set<std::string>> of_stem;
  for (std::size_t i = 0; i < images.size(); ++i) {
    of_stem[paths[i].parent_path() / paths[i].stem()].insert(images[i]);
  }
  std::map<std::string, std::string> taken;  // place to image
  std::vector<std::string> places;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const fs::path stem = paths[i].parent_path() / paths[i].stem();
    const fs::path name = fs::path(folder) / (of_stem[stem].size() == 1 ? stem : paths[i]);
    std::string place = name.string() + ".jpg";
    // A picture that kept its ending may still meet another: of part.png.png.
    for (int again = 2; taken.emplace(place, images[i]).first->second != images[i]; ++again) {
      place = fmt::format("{}.{}.jpg", name.string(), again);
    }
    places.push_back(place);
  }
  refuse_among_images(folder, images, places);
  return places;
}

std::vector<std::string> map_places(const std::string& folder,
                                    const std::vector<std::string>& images) {
  std::vector<std::string> places;
  for (const fs::path& path : paths_inside(images)) {
    places.push_back((fs::path(folder) / (path.string() + ".npy")).string());
  }
  return places;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: cannot be made: {}", folder, error.message()));
  }
}

void make_folder_of(const std::string& file) { make_folder(fs::path(file).parent_path().string()); }

}  // namespace contcore::app
