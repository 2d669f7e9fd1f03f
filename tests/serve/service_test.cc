// The service as a whole, where a test has to hold up one of its threads.
#include "serve/service.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "contcore/image.h"
#include "serve/flush_hook.h"
#include "serve/raw_client.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_service_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    options_.port = 0;
    options_.memory.path = (folder_ / "line.ccm").string();
    options_.memory.settings.geometry = Geometry::parse("64", "none");
    options_.memory.settings.capacity = 40;
    Image image;
    image.width = image.height = 64;
    image.rgb.assign(64 * 64 * 3, 100);
    const std::vector<std::uint8_t> bytes = encode_png(image);
    image_.assign(bytes.begin(), bytes.end());
  }
  void TearDown() override { fs::remove_all(folder_); }

  int post_image(std::uint16_t port, const std::string& target) const {
    RawClient client(port);
    return client
        .ask("POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
             std::to_string(image_.size()) + "\r\n\r\n" + image_)
        .status;
  }
  // As another program finds them: what a service leaves that is killed now.
  std::int64_t inspections_in_file() const {
    sqlite3* db = nullptr;
    sqlite3_open_v2((options_.memory.path + ".db").c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
    sqlite3_stmt* rows = nullptr;
    sqlite3_prepare_v2(db, "SELECT count(*) FROM inspection", -1, &rows, nullptr);
    const std::int64_t count =
        sqlite3_step(rows) == SQLITE_ROW ? sqlite3_column_int64(rows, 0) : -1;
    sqlite3_finalize(rows);
    sqlite3_close(db);
    return count;
  }

  fs::path folder_;
  ServiceOptions options_;
  std::string image_;
};

// Learning may take as long as it likes: an inspection is written, and flushed, all the same.
TEST_F(ServiceTest, InspectionsAreKeptWhileLearningIsHeldUp) {
  std::atomic<bool> hold = false;
  std::atomic<int> flushed = 0;
  std::promise<void> held;
  std::promise<void> let_go;
  const std::shared_future<void> go_on = let_go.get_future().share();
  const FlushHook hook([&](const std::string& file) {
    if (file.ends_with("-wal")) ++flushed;
    if (!file.ends_with(".journal") || !hold.exchange(false)) return;
    held.set_value();
    go_on.wait();
  });
  {
    Service service(options_);
    ASSERT_EQ(post_image(service.port(), "/v1/tasks/a/images"), 201);
    hold = true;
    auto learning = std::async(std::launch::async,
                               [&] { return post_image(service.port(), "/v1/tasks/a/images"); });
    held.get_future().wait();
    const int before = flushed;
    EXPECT_EQ(post_image(service.port(), "/v1/inspections"), 201);
    const auto end = std::chrono::steady_clock::now() + 8s;  // 200 ms on a machine that has time
    while ((inspections_in_file() < 1 || flushed == before) &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(inspections_in_file(), 1);
    EXPECT_GT(flushed, before);
    EXPECT_EQ(learning.wait_for(0s), std::future_status::timeout);
    let_go.set_value();
    EXPECT_EQ(learning.get(), 201);
  }
}

}  // namespace
}  // namespace contcore
