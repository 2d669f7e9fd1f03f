#include "contcore/dataset.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// A folder of its own for each test. Images are never opened, so any file will do for one.
class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest() {
    std::string name = (fs::temp_directory_path() / "contcore-dataset-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    top_ = name;
    root_ = top_ / "set";
    fs::create_directory(root_);
  }
  ~DatasetTest() override { fs::remove_all(top_); }

  void put(const fs::path& file, const std::string& text = "x") const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file, std::ios::binary) << text;
  }
  void put_all(const Names& files) const {
    for (const std::string& file : files) put(file);
  }
  std::string in(const fs::path& file) const { return (root_ / file).string(); }
  Dataset open(const std::string& layout = "auto") const {
    return open_dataset(root_.string(), layout);
  }

  void expect_refused(const Names& parts, const std::string& layout = "auto",
                      Error::Kind kind = Error::Kind::kInput) const {
    try {
      open(layout);
      ADD_FAILURE() << "not refused; expected " << parts.front();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      for (const std::string& part : parts) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
            << "'" << part << "' in: " << error.what();
      }
      EXPECT_LT(std::string(error.what()).size(), 1000U);
    }
  }

  fs::path top_;
  fs::path root_;
};

bool has_note(const Dataset& dataset, const Names& parts) {
  return std::any_of(dataset.notes.begin(), dataset.notes.end(), [&](const std::string& note) {
    return std::all_of(parts.begin(), parts.end(),
                       [&](const std::string& part) { return note.find(part) != note.npos; });
  });
}

Names products_of(const Dataset& dataset) {
  Names names;
  for (const Product& product : dataset.products) names.push_back(product.name);
  return names;
}

void expect_image(const TestImage& image, const std::string& file, const std::string& kind,
                  bool defect, const std::string& mask) {
  EXPECT_EQ(image.file, file);
  EXPECT_EQ(image.kind, kind);
  EXPECT_EQ(image.defect, defect);
  EXPECT_EQ(image.mask, mask);
}

// Anything, for all layouts.

TEST_F(DatasetTest, NamesTheLayoutsItKnows) {
  expect_refused({"'coco'", "auto, mvtec, visa and real-iad"}, "coco", Error::Kind::kUsage);
  expect_refused({"''", "auto, mvtec, visa and real-iad"}, "", Error::Kind::kUsage);
}

TEST_F(DatasetTest, SaysWhatItExpectsWhereThereIsNothing) {
  expect_refused({root_.string(), "PRODUCT/train/good", "1cls.csv", "PRODUCT.json"});
  expect_refused({root_.string(), "no products"}, "mvtec");
  expect_refused({"1cls.csv", "cannot be opened"}, "visa");
  expect_refused({root_.string(), "realiad_jsons/PRODUCT.json"}, "real-iad");
  fs::remove(root_);
  expect_refused({root_.string(), "no such folder"});
  std::ofstream(root_) << "a file";
  expect_refused({root_.string(), "no such folder"});
  EXPECT_THROW(open_dataset(""), Error);
  EXPECT_THROW(open_dataset(top_.string() + std::string("\0/set", 5)), Error);
}

TEST_F(DatasetTest, HintsAtTheDataSetInside) {
  put_all({"notes/readme.txt", "inner/bottle/train/good/0.png", "inner/bottle/test/good/0.png"});
  expect_refused({"no data set here", in("inner") + " looks like one"});
}

// MVTec AD.

TEST_F(DatasetTest, ReadsMvtec) {
  put_all({"bottle/train/good/001.png", "bottle/train/good/000.png", "bottle/train/good/note.txt",
           "bottle/train/good/.hidden.png", "bottle/train/bad/000.png",
           "bottle/test/scratch/000.png", "bottle/test/good/001.JPG", "bottle/test/good/000.png",
           "bottle/test/broken/001.png", "bottle/test/broken/000.png", "bottle/test/stray.png",
           "bottle/ground_truth/broken/000_mask.png", "bottle/ground_truth/broken/001.png",
           "bottle/ground_truth/scratch/000_mask.png", "bottle/ground_truth/scratch/000.png",
           "bottle/ground_truth/good/000_mask.png"});
  put_all({"Zipper/train/good/a.bmp", "Zipper/test/good/a.bmp", "Zipper/test/bad/a.bmp",
           "Zipper/ground_truth/bad/a_mask.png", "license.txt", ".cache/x.png"});
  const Dataset dataset = open();
  EXPECT_EQ(dataset.name, "set");
  EXPECT_EQ(dataset.layout, "mvtec");
  EXPECT_EQ(dataset.notes, Names{});
  ASSERT_EQ(products_of(dataset), (Names{"Zipper", "bottle"}));
  const Product& bottle = dataset.products[1];
  EXPECT_EQ(bottle.train,
            (Names{in("bottle/train/good/000.png"), in("bottle/train/good/001.png")}));
  EXPECT_TRUE(bottle.masks);
  ASSERT_EQ(bottle.test.size(), 5U);
  const auto check = [&](std::size_t i, const char* file, const char* kind, const char* mask) {
    expect_image(bottle.test[i], in(fs::path("bottle/test") / kind / file), kind,
                 kind != std::string("good"),
                 mask == std::string() ? "" : in(fs::path("bottle/ground_truth") / kind / mask));
  };
  check(0, "000.png", "broken", "000_mask.png");
  check(1, "001.png", "broken", "001.png");
  check(2, "000.png", "good", "");
  check(3, "001.JPG", "good", "");
  check(4, "000.png", "scratch", "000_mask.png");
  EXPECT_TRUE(dataset.products[0].masks);
}

TEST_F(DatasetTest, ReadsASingleProduct) {
  put_all({"train/good/0.png", "test/good/0.png", "test/bad/0.png", "ground_truth/bad/0_mask.png"});
  for (const std::string layout : {"auto", "mvtec"}) {
    const Dataset dataset = open(layout);
    EXPECT_EQ(products_of(dataset), Names{"set"});
    EXPECT_EQ(dataset.name, "set");
    EXPECT_TRUE(dataset.products[0].masks);
  }
  EXPECT_EQ(open_dataset(root_.string() + "/").name, "set");
  EXPECT_EQ(open_dataset((root_ / "train" / ".." / ".").string()).name, "set");
  // A link is called what it is called, not what it leads to.
  fs::create_directory_symlink(root_, top_ / "link");
  EXPECT_EQ(products_of(open_dataset((top_ / "link").string())), Names{"link"});
}

TEST_F(DatasetTest, ALinkedProductKeepsItsName) {
  put_all({"../elsewhere/train/good/0.png", "../elsewhere/test/good/0.png"});
  fs::create_directory_symlink(top_ / "elsewhere", root_ / "bottle");
  EXPECT_EQ(products_of(open()), Names{"bottle"});
}

TEST_F(DatasetTest, NotesWhatIsLeftOut) {
  put_all({"a/train/good/0.png", "a/test/good/0.png", "a/test/bad/0.png", "a/test/empty/none.txt",
           "a/ground_truth/bad/0_mask.png", "docs/figure.png"});
  const Dataset dataset = open();
  EXPECT_EQ(products_of(dataset), Names{"a"});
  EXPECT_TRUE(dataset.products[0].masks);
  EXPECT_EQ(dataset.notes.size(), 2U);
  EXPECT_TRUE(has_note(dataset, {in("docs"), "no folder train"}));
  EXPECT_TRUE(has_note(dataset, {in("a/test/empty"), "no images"}));
}

TEST_F(DatasetTest, NotesMasksThatAreMissing) {
  put_all({"a/train/good/0.png", "a/test/good/0.png", "a/test/bad/0.png", "a/test/bad/1.png",
           "a/test/bad/2.png", "a/ground_truth/bad/1_mask.png"});
  put_all({"b/train/good/0.png", "b/test/good/0.png", "b/test/bad/0.png"});
  put_all({"c/train/good/0.png", "c/test/good/0.png", "c/test/bad/0.png"});
  put("c/ground_truth/bad/0_mask.png/inside.png");  // a folder is no mask
  const Dataset dataset = open();
  EXPECT_EQ(dataset.notes.size(), 3U);
  EXPECT_TRUE(has_note(dataset, {"a: 2 of 3", in("a/test/bad/0.png")}));
  EXPECT_TRUE(has_note(dataset, {"b: 1 of 1", in("b/test/bad/0.png")}));
  for (const Product& product : dataset.products) EXPECT_FALSE(product.masks);
  EXPECT_EQ(dataset.products[0].test[1].mask, in("a/ground_truth/bad/1_mask.png"));
}

TEST_F(DatasetTest, NotesThatNothingCanBeCompared) {
  put_all({"a/train/good/0.png", "a/test/good/0.png"});
  put_all({"b/train/good/0.png", "b/test/bad/0.png", "b/ground_truth/bad/0.png"});
  const Dataset dataset = open();
  EXPECT_TRUE(has_note(dataset, {"a: no defective test images"}));
  EXPECT_TRUE(has_note(dataset, {"b: no good test images"}));
  EXPECT_FALSE(dataset.products[0].masks);
  EXPECT_TRUE(dataset.products[1].masks);
}

TEST_F(DatasetTest, RefusesAProductWithoutImages) {
  put_all({"a/train/good/0.png", "a/test/good/0.png"});
  put_all({"b/train/good/readme.txt", "b/test/good/0.png"});
  expect_refused({root_.string(), "product b has no good images to train with"});
  fs::remove_all(root_ / "b" / "train" / "good");
  expect_refused({"product b has no good images to train with"});
  put("b/train/good/0.png");
  EXPECT_EQ(open().products.size(), 2U);
  fs::remove(root_ / "b" / "test" / "good" / "0.png");
  expect_refused({"product b has no images to test with"});
  fs::remove_all(root_ / "b" / "test");
  expect_refused({"product b has no images to test with"});
}

TEST_F(DatasetTest, TakesNamesOfAnyBytes) {
  put_all({"\xFF\xC3/train/good/\x01.png", "\xFF\xC3/test/good/\xE2\x80.png",
           "\xFF\xC3/test/{}%s/0.png"});
  const Dataset dataset = open();
  EXPECT_EQ(products_of(dataset), Names{"\xFF\xC3"});
  EXPECT_TRUE(has_note(dataset, {"\xFF\xC3: 1 of 1", "{}%s"}));
}

// VisA.

constexpr char kVisaHeader[] = "object,split,label,image,mask\n";

class VisaTest : public DatasetTest {
 protected:
  VisaTest() {
    put_all(
        {"n/0.JPG", "n/1.JPG", "n/2.JPG", "n/3.JPG", "a/0.JPG", "a/1.JPG", "m/0.png", "m/1.png"});
  }
  void list(const std::string& rows) const { put("split_csv/1cls.csv", kVisaHeader + rows); }
};

TEST_F(VisaTest, ReadsItsList) {
  list(
      "pcb,train,normal,n/1.JPG,\n"
      "pcb,test,normal,n/2.JPG,\n"
      "pcb,test,anomaly,a/1.JPG,m/1.png\n"
      "candle,test,anomaly,a/0.JPG,m/0.png\n"
      "candle,test,normal,n/3.JPG,m/1.png\n"
      "candle,train,normal,n/0.JPG,\n"
      "pcb,train,normal,n/0.JPG,\n");
  for (const std::string layout : {"auto", "visa"}) {
    const Dataset dataset = open(layout);
    EXPECT_EQ(dataset.layout, "visa");
    EXPECT_EQ(dataset.name, "set");
    EXPECT_EQ(dataset.notes, Names{});
    ASSERT_EQ(products_of(dataset), (Names{"candle", "pcb"}));
    EXPECT_EQ(dataset.products[1].train, (Names{in("n/0.JPG"), in("n/1.JPG")}));
    const Product& candle = dataset.products[0];
    ASSERT_EQ(candle.test.size(), 2U);
    expect_image(candle.test[0], in("a/0.JPG"), "anomaly", true, in("m/0.png"));
    expect_image(candle.test[1], in("n/3.JPG"), "good", false, "");
    EXPECT_TRUE(candle.masks);
  }
}

TEST_F(VisaTest, ReadsQuotesAndOtherLineEnds) {
  put("a, \"b\"\nc.png");
  put("split_csv/1cls.csv",
      "\xEF\xBB\xBFobject,split,\"label\",image,mask\r\n\r\n"
      "\"c,1\",train,normal,\"a, \"\"b\"\"\nc.png\",\"\"\r\n\n"
      "\"c,1\",test,\"normal\",n/0.JPG,");
  const Dataset dataset = open();
  ASSERT_EQ(products_of(dataset), Names{"c,1"});
  EXPECT_EQ(dataset.products[0].train, Names{in("a, \"b\"\nc.png")});
  EXPECT_EQ(dataset.products[0].test.size(), 1U);
}

TEST_F(VisaTest, CountsLinesInsideQuotes) {
  put("a\n\nb.png");
  list("c,train,normal,\"a\n\nb.png\",\nc,val,normal,n/0.JPG,\n");
  expect_refused({"line 5", "'val'"});
}

TEST_F(VisaTest, SortsByKindBeforeName) {
  list(
      "c,train,normal,n/0.JPG,\nc,test,normal,a/0.JPG,\nc,test,anomaly,n/2.JPG,m/0.png\n"
      "c,test,anomaly,n/1.JPG,m/1.png\n");
  Names files;
  const Dataset dataset = open();
  for (const TestImage& image : dataset.products[0].test) files.push_back(image.file);
  EXPECT_EQ(files, (Names{in("n/1.JPG"), in("n/2.JPG"), in("a/0.JPG")}));
}

TEST_F(VisaTest, NotesMissingMasksAndRepeats) {
  list(
      "c,train,normal,n/0.JPG,\nc,test,normal,n/0.JPG,\nc,test,anomaly,a/0.JPG,\n"
      "c,test,anomaly,a/1.JPG,m/1.png\n");
  const Dataset dataset = open();
  EXPECT_FALSE(dataset.products[0].masks);
  EXPECT_TRUE(has_note(dataset, {"c: 1 of 2", in("a/0.JPG")}));
  EXPECT_TRUE(has_note(dataset, {"c: 1 images are listed more than once", in("n/0.JPG")}));
}

TEST_F(VisaTest, RefusesOtherColumns) {
  const std::string row = "c,train,normal,n/0.JPG,\n";
  for (const std::string header :
       {"object,split,image,label,mask\n", "object,split,label,image,Mask\n", "\n\n"}) {
    put("split_csv/1cls.csv", header + row);
    expect_refused({in("split_csv/1cls.csv"), "line", "not the columns", "object,split,label"});
  }
  put("split_csv/1cls.csv", "\n\n\r\n");
  expect_refused({"not the columns"});
  put("split_csv/1cls.csv", "object,split,label,image\n" + row);
  expect_refused({"line 1", "4 fields rather than 5"});
  put("split_csv/1cls.csv", "");
  expect_refused({"is empty"});
}

TEST_F(VisaTest, RefusesRowsNamingTheLine) {
  const std::string good = "c,train,normal,n/0.JPG,\n\n";
  const auto refused = [&](const std::string& row, const std::string& why) {
    SCOPED_TRACE(row.substr(0, 100));
    list(good + row);
    expect_refused({in("split_csv/1cls.csv"), "line 4", why});
  };
  refused("c,train,normal,n/0.JPG\n", "4 fields rather than 5");
  refused("c\n", "1 fields rather than 5");
  refused("c,train,normal,n/0.JPG,,\n", "more than 5 fields");
  refused(std::string(1000000, ','), "more than 5 fields");
  refused("c,val,normal,n/0.JPG,\n", "'val' is neither train nor test");
  refused("c,test,good,n/0.JPG,\n", "'good' is neither anomaly nor normal");
  refused("c,test,Normal,n/0.JPG,\n", "'Normal' is neither");
  refused("c,test," + std::string(100000, 'n') + ",n/0.JPG,\n", "nnn…");
  refused("c,train,anomaly,a/0.JPG,m/0.png\n", "an anomaly to train with");
  refused(",train,normal,n/0.JPG,\n", "cannot be the name of an object");
  refused("..,train,normal,n/0.JPG,\n", "cannot be the name of an object");
  refused("a/b,train,normal,n/0.JPG,\n", "cannot be the name of an object");
  refused(std::string("a\0b,train,normal,n/0.JPG,\n", 25), "cannot be the name of an object");
  refused("\"c,train,normal,n/0.JPG,\n", "a quote that does not end");
  refused("\"c\"x,train,normal,n/0.JPG,\n", "a quote inside a field");
  refused("c\",train,normal,n/0.JPG,\n", "a quote inside a field");
}

TEST_F(VisaTest, RefusesFilesOutside) {
  put("../secret.JPG");
  for (const std::string name :
       {"../secret.JPG", "n/../../secret.JPG", "n/..", "/etc/passwd", ""}) {
    list("c,train,normal," + name + ",\n");
    expect_refused({"line 2", "'" + name + "' is not the name of a file inside"});
  }
  list(std::string("c,train,normal,n/0.JPG\0x,\n", 26));
  expect_refused({"line 2", "is not the name of a file"});
  list("c,test,anomaly,a/0.JPG,../secret.JPG\n");
  expect_refused({"line 2", "is not the name of a file"});
}

TEST_F(VisaTest, CountsFilesThatAreMissing) {
  list(
      "c,train,normal,n/0.JPG,\nc,test,normal,n/8.JPG,\nc,test,anomaly,a/0.JPG,m/9.png\n"
      "c,test,normal,n,\n");
  expect_refused({in("split_csv/1cls.csv"), "3 of the 5 files", in("n/8.JPG")});
  list("c,test,normal,n/0.JPG,\n");
  expect_refused({"product c has no good images"});
  list("c,train,normal,n/0.JPG,\n");
  expect_refused({"product c has no images to test with"});
  list("");
  expect_refused({"no products"});
}

TEST_F(VisaTest, BoundsTheSizeOfItsList) {
  list("");
  fs::resize_file(root_ / "split_csv" / "1cls.csv", (std::uintmax_t{64} << 20) + 1);
  expect_refused({in("split_csv/1cls.csv"), "more than the limit"});
}

// Real-IAD.

std::string entry(const std::string& kind, const std::string& image, const std::string& mask = "") {
  return R"({"category": "jack", "anomaly_class": ")" + kind + R"(", "image_path": ")" + image +
         R"(", "mask_path": )" + (mask.empty() ? "null" : "\"" + mask + "\"") + "}";
}

std::string json(const std::string& train, const std::string& test) {
  return R"({"meta": {"normal_class": "OK", "prefix": "jack/", "pre_transform": {"size": [1, 2]}},)"
         R"("train": [)" +
         train + R"(], "test": [)" + test + R"(], "more": [[1], {"train": [3]}]})";
}

class RealIadTest : public DatasetTest {
 protected:
  static constexpr char kList[] = "realiad_jsons/jack.json";
  void images(const std::string& folder) const {
    for (const char* file :
         {"OK/0.jpg", "OK/1.jpg", "OK/2.jpg", "NG/0.jpg", "NG/0.png", "NG/1.jpg"}) {
      put(fs::path(folder) / "jack" / file);
    }
  }
  static std::string good() {
    return json(entry("OK", "OK/1.jpg") + "," + entry("OK", "OK/0.jpg"),
                entry("OK", "OK/2.jpg", "NG/none.png") + "," + entry("HS", "NG/0.jpg", "NG/0.png") +
                    "," + entry("OK", "NG/1.jpg"));
  }
  void check(const Dataset& dataset, const std::string& folder) const {
    EXPECT_EQ(dataset.layout, "real-iad");
    ASSERT_EQ(products_of(dataset), Names{"jack"});
    const Product& jack = dataset.products[0];
    const auto at = [&](const char* file) { return in(fs::path(folder) / "jack" / file); };
    EXPECT_EQ(jack.train, (Names{at("OK/0.jpg"), at("OK/1.jpg")}));
    ASSERT_EQ(jack.test.size(), 3U);
    expect_image(jack.test[0], at("NG/0.jpg"), "HS", true, at("NG/0.png"));
    expect_image(jack.test[1], at("NG/1.jpg"), "good", false, "");
    expect_image(jack.test[2], at("OK/2.jpg"), "good", false, "");
    EXPECT_TRUE(jack.masks);
    EXPECT_EQ(dataset.notes, Names{});
  }
};

TEST_F(RealIadTest, ReadsTheLargestImages) {
  put(kList, good());
  put("realiad_jsons/readme.txt");
  images("");
  check(open(), "");
  for (const char* folder : {"realiad_256", "realiad_512", "realiad_1024"}) {
    images(folder);
    check(open(), folder);
    check(open("real-iad"), folder);
  }
}

TEST_F(RealIadTest, FindsTheListsDeeperOrBeside) {
  put("realiad_jsons/realiad_jsons/jack.json", good());
  put("realiad_jsons/realiad_jsons_sv/jack.json", "another experiment's");
  images("realiad_512");
  check(open(), "realiad_512");
  const Dataset beside = open_dataset(in("realiad_512"));
  check(beside, "realiad_512");
  EXPECT_EQ(beside.name, "realiad_512");
}

TEST_F(RealIadTest, ReadsSeveralProducts) {
  images("");
  put("realiad_jsons/tape.json", good());
  put("realiad_jsons/jack.json", good());
  put("realiad_jsons/.jack.json", "left by an editor");
  EXPECT_EQ(products_of(open()), (Names{"jack", "tape"}));
}

TEST_F(RealIadTest, DoesNotCareAboutTheOrderOfKeys) {
  images("");
  put(kList,
      R"({"test": [)" + entry("fine", "jack/OK/0.jpg") + "," +
          R"({"image_path": "jack/NG/0.jpg", "extra": {"a": [1, [2]]}, "anomaly_class": "HS"})" +
          R"(], "train": [)" + entry("fine", "jack/OK/1.jpg") +
          R"(], "meta": {"prefix": "", "normal_class": "fine"}})");
  const Dataset dataset = open();
  ASSERT_EQ(dataset.products[0].test.size(), 2U);
  expect_image(dataset.products[0].test[0], in("jack/NG/0.jpg"), "HS", true, "");
  expect_image(dataset.products[0].test[1], in("jack/OK/0.jpg"), "good", false, "");
  EXPECT_FALSE(dataset.products[0].masks);
  EXPECT_TRUE(has_note(dataset, {"jack: 1 of 1", "NG/0.jpg"}));
}

TEST_F(RealIadTest, RefusesWhatIsNoList) {
  images("");
  const std::string ok = entry("OK", "OK/0.jpg");
  const std::string meta = R"("meta": {"normal_class": "OK", "prefix": "jack/"})";
  const auto refused = [&](const std::string& text, const std::string& why) {
    SCOPED_TRACE(text.substr(0, 200));
    put(kList, text);
    expect_refused({in(kList), why});
  };
  refused("", "is empty");
  for (const char* text :
       {"{", "nonsense", "{\"meta\": ", "\xFF\xFE", "{} {}", "{\"a\": 1e999}", "{\"\xC3\": 1}"}) {
    refused(text, "is not JSON");
  }
  refused("\"" + std::string(1000000, 'a'), "is not JSON");
  for (const char* text : {"[]", "1", "null", "\"text\""}) refused(text, "is not a JSON object");
  refused("{}", "has no \"meta\"");
  refused("{" + meta + "}", "has no \"train\"");
  refused("{" + meta + ", \"train\": []}", "has no \"test\"");
  refused("{" + meta + "," + meta + "}", "has \"meta\" twice");
  for (const char* wrong : {"1", "null", "[]", "\"OK\""}) {
    refused(std::string("{\"meta\": ") + wrong + "}", "\"meta\" is not an object");
  }
  for (const char* wrong : {"1", "null", "{}", "\"OK\""}) {
    refused(std::string("{\"test\": ") + wrong + "}", "\"test\" is not a list");
  }
  for (const char* wrong : {"1", "null", "[]", "\"OK\"", "true"}) {
    refused(json(ok, ok + "," + wrong), "\"test\", entry 2 is not an object");
  }
  for (const char* wrong : {"{}", R"({"prefix": "a"})", R"({"prefix": "a", "normal_class": 1})"}) {
    refused(std::string("{\"meta\": ") + wrong + "}", "\"meta\" has no text \"normal_class\"");
  }
  refused(R"({"meta": {"normal_class": "OK", "prefix": ["a"]}})", "has no text \"prefix\"");
  refused(json(ok + ", {}", ok), "\"train\", entry 2 has no text \"anomaly_class\"");
  refused(json(R"({"anomaly_class": "OK"})", ok), "\"train\", entry 1 has no text \"image_path\"");
  refused(json(R"({"anomaly_class": "OK", "image_path": {"a": "b"}})", ok),
          "no text \"image_path\"");
  refused(json(R"({"anomaly_class": "OK", "image_path": "a", "mask_path": 1})", ok),
          "entry 1 has no text \"mask_path\"");
  refused(json(entry("HS", "NG/0.jpg"), ok), "\"train\", entry 1 is 'HS', where only 'OK' belongs");
  put(kList, json("", ok));
  expect_refused({"product jack has no good images"});
}

TEST_F(RealIadTest, BoundsDepthAndSize) {
  for (const char* open_one : {"[", "{\"a\":"}) {
    std::string deep = "{\"more\": ";
    for (int i = 0; i < 1000000; ++i) deep += open_one;
    put(kList, deep);
    expect_refused({in(kList), "nested too deeply"});
  }
  fs::resize_file(root_ / kList, (std::uintmax_t{256} << 20) + 1);
  expect_refused({in(kList), "more than the limit"});
}

TEST_F(RealIadTest, RefusesFilesOutside) {
  images("");
  put("../secret.jpg");
  const auto refused = [&](const std::string& text) {
    put(kList, text);
    expect_refused({in(kList), "\"train\", entry 2", "is not the name of a file inside"});
  };
  const std::string ok = entry("OK", "OK/0.jpg");
  for (const char* name : {"../../secret.jpg", "..", "OK/../../../secret.jpg", "/etc/passwd", "",
                           "OK/0.jpg\\u0000x"}) {
    refused(json(ok + "," + entry("OK", name), ok));
  }
  for (const char* prefix : {"..", "/etc/", "jack/../..", "\\u0000"}) {
    put(kList, R"({"meta": {"normal_class": "OK", "prefix": ")" + std::string(prefix) +
                   R"("}, "train": [)" + ok + R"(], "test": []})");
    expect_refused({"\"train\", entry 1", "is not the name of a file inside"});
  }
}

TEST_F(RealIadTest, CountsFilesThatAreMissing) {
  images("");
  put(kList, json(entry("OK", "OK/0.jpg"),
                  entry("OK", "OK/7.jpg") + "," + entry("HS", "NG/0.jpg", "NG/9.png")));
  expect_refused({in(kList), "2 of the 4 files", in("jack/OK/7.jpg")});
}

// No change of a byte, nor an end anywhere, does worse than an error.
TEST_F(RealIadTest, SurvivesDamagedLists) {
  images("");
  Random random(3);
  const std::string whole = good();
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    if (round % 3 == 0) text.resize(1 + random.below(text.size()));
    for (int i = 0; i < round % 4; ++i) {
      text[random.below(text.size())] =
          round % 2 == 0 ? "{}[]\",:1"[random.below(8)] : static_cast<char>(random.below(256));
    }
    put(kList, text);
    try {
      open("real-iad");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
    }
  }
}

TEST_F(VisaTest, SurvivesDamagedLists) {
  Random random(4);
  const std::string whole =
      kVisaHeader + std::string(
                        "c,train,normal,n/0.JPG,\n\"c\",test,normal,n/1.JPG,\n"
                        "c,test,anomaly,a/0.JPG,m/0.png\n");
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    if (round % 3 == 0) text.resize(1 + random.below(text.size()));
    for (int i = 0; i < round % 4; ++i) {
      text[random.below(text.size())] =
          round % 2 == 0 ? "\",\n\r./"[random.below(6)] : static_cast<char>(random.below(256));
    }
    put("split_csv/1cls.csv", text);
    try {
      open("visa");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
    }
  }
}

TEST_F(DatasetTest, RecognisesTheListsBeforeTheFolders) {
  put_all({"a/train/good/0.png", "a/test/good/0.png"});
  put("realiad_jsons/empty.txt");
  EXPECT_EQ(open().layout, "mvtec");
  put("realiad_jsons/a.json", "{}");
  expect_refused({"a.json"});
  EXPECT_EQ(open("mvtec").layout, "mvtec");
  put("split_csv/1cls.csv", "nonsense");
  expect_refused({"1cls.csv"});
}

}  // namespace
}  // namespace contcore
