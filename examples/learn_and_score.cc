// Learn a folder of good images, then score one: learn_and_score GOOD_FOLDER IMAGE
#include <contcore/detector.h>
#include <contcore/error.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 3) return std::fprintf(stderr, "learn_and_score GOOD_FOLDER IMAGE\n"), 2;
  contcore::Compute compute;
  contcore::Detector detector(contcore::DetectorOptions{});
  contcore::LearnOptions options;
  options.task = "product";
  detector.learn(contcore::find_images({argv[1]}), options, compute);
  const contcore::Image image = contcore::read_image(argv[2]);
  const contcore::Inspection seen = detector.inspect(image, {}, compute);
  std::printf("score %.3f: %s\n", static_cast<double>(seen.score),
              seen.rejected ? "defect" : "good");
} catch (const contcore::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.kind());
}
