// What the requests of a service mean.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "camera/feed.h"
#include "contcore/detector.h"
#include "serve/calendar.h"
#include "serve/executor.h"
#include "serve/http.h"
#include "serve/jobs.h"
#include "serve/live_memory.h"
#include "serve/metrics.h"
#include "serve/promises.h"
#include "serve/rate_limit.h"
#include "serve/store.h"
#include "serve/tokens.h"
#include "serve/turns.h"
#include "serve/watch.h"

namespace contcore {

class Cameras;
class Outputs;
struct ServiceOptions;

class Api {
 public:
  Api(const ServiceOptions& options, LiveMemory& live, Store& store, Outputs& outputs,
      Cameras& cameras);
  ~Api();

  /// For the HTTP server.
  HttpAdmission admit(const HttpRequest& head);
  void handle(HttpRequest&& request, HttpReply reply);

  /// Has an image inspected that did not come by HTTP. False when too much waits already, or there
  /// is nothing to compare it with. For one thread.
  bool inspect_file(const std::string& path, const std::string& name, WatchHooks::Done done);
  void show_watch(const WatchState& state);
  /// The same for a camera's frame; from any thread.
  bool inspect_frame(const std::string& station, Frame&& frame, CameraFeed::Done done);

  /// From now on it is not ready for more.
  void wind_down() { winding_down_ = true; }
  /// No more work is taken, and what waits is done.
  void finish();

 private:
  using Params = std::vector<std::string>;  // of the path
  using Handler = HttpResponse (Api::*)(const HttpRequest&, const Params&, Compute&);
  enum class Where {
    kAtOnce,  // on the server's thread, behind nobody
    kQuery,
    kPictures,  // what takes longer than a query, and nobody's line waits for
    kInspector,
    kLearner,
    kCameras  // what waits for a frame
  };
  struct Route {
    const char* method;
    std::vector<std::string_view> pattern;  // "" stands for any one segment
    Handler handler;
    Where where;
    std::optional<Role> role;  // nothing: open to all
    std::size_t body;
  };
  struct Found {
    const Route* route = nullptr;
    Params params;
    std::string allowed;  // methods there are for the path, when the one asked for is not
  };
  static std::vector<Route> routes(std::size_t image_bytes);
  Found find(const HttpRequest& request) const;
  std::optional<HttpResponse> refuse_stranger(const HttpRequest& head) const;
  HttpResponse answer(const Route& route, const HttpRequest& request, const Params& params,
                      Compute& compute);
  Executor& executor_of(const Route& route, const HttpRequest& request, const Params& params) const;
  bool is_for_nobody(const Route& route, const HttpRequest& request, const Params& params,
                     const HttpReply& reply) const;
  void count(const Route* route, int status);

  // The handlers, in the order of docs/serving.md.
  HttpResponse health(const HttpRequest&, const Params&, Compute&);
  HttpResponse ready(const HttpRequest&, const Params&, Compute&);
  HttpResponse metrics(const HttpRequest&, const Params&, Compute&);
  HttpResponse page(const HttpRequest&, const Params&, Compute&);
  HttpResponse status(const HttpRequest&, const Params&, Compute&);
  HttpResponse tasks(const HttpRequest&, const Params&, Compute&);
  HttpResponse scores(const HttpRequest&, const Params&, Compute&);
  HttpResponse set_threshold(const HttpRequest&, const Params&, Compute&);
  HttpResponse history(const HttpRequest&, const Params&, Compute&);
  HttpResponse inspect(const HttpRequest&, const Params&, Compute&);
  HttpResponse inspections(const HttpRequest&, const Params&, Compute&);
  HttpResponse export_csv(const HttpRequest&, const Params&, Compute&);
  HttpResponse export_json(const HttpRequest&, const Params&, Compute&);
  HttpResponse statistics(const HttpRequest&, const Params&, Compute&);
  HttpResponse report(const HttpRequest&, const Params&, Compute&);
  HttpResponse inspection(const HttpRequest&, const Params&, Compute&);
  HttpResponse image(const HttpRequest&, const Params&, Compute&);
  HttpResponse map(const HttpRequest&, const Params&, Compute&);
  HttpResponse outline(const HttpRequest&, const Params&, Compute&);
  HttpResponse region(const HttpRequest&, const Params&, Compute&);
  HttpResponse feedback(const HttpRequest&, const Params&, Compute&);
  HttpResponse stations(const HttpRequest&, const Params&, Compute&);
  HttpResponse pin_station(const HttpRequest&, const Params&, Compute&);
  HttpResponse trigger(const HttpRequest&, const Params&, Compute&);
  HttpResponse learn_image(const HttpRequest&, const Params&, Compute&);
  HttpResponse create_job(const HttpRequest&, const Params&, Compute&);
  HttpResponse job_image(const HttpRequest&, const Params&, Compute&);
  HttpResponse review_job(const HttpRequest&, const Params&, Compute&);
  HttpResponse start_job(const HttpRequest&, const Params&, Compute&);
  HttpResponse jobs(const HttpRequest&, const Params&, Compute&);
  HttpResponse job(const HttpRequest&, const Params&, Compute&);
  HttpResponse cancel_job(const HttpRequest&, const Params&, Compute&);
  HttpResponse lessons(const HttpRequest&, const Params&, Compute&);
  HttpResponse forget(const HttpRequest&, const Params&, Compute&);
  HttpResponse versions(const HttpRequest&, const Params&, Compute&);
  HttpResponse restore(const HttpRequest&, const Params&, Compute&);
  HttpResponse rename_task(const HttpRequest&, const Params&, Compute&);

  Patches extract(const Image& picture, Compute& compute, const SharedRegion& region = {}) const;
  Patches see(const Image& picture, const std::string& task, Compute& compute) const;
  /// Its id is 0 when it could not be kept.
  StoredInspection inspect_image(std::string_view bytes, const std::string& task,
                                 const std::string& source, const std::string& station,
                                 Compute& compute, Turns::Turn* turn = nullptr);
  void note_frame(const std::string& trouble);
  StoredInspection inspect_shot(const Frame& frame, const std::string& asked,
                                const std::string& station, Compute& compute,
                                Turns::Turn* turn = nullptr);
  /// The rest of `row` is what was found. The picture's bytes are asked for when the verdict is
  /// there; it is kept and sent on when it is its turn.
  StoredInspection inspect_picture(const Image& picture, const std::string& task,
                                   const std::function<std::string_view()>& bytes,
                                   StoredInspection row,
                                   std::chrono::steady_clock::time_point start, Compute& compute,
                                   Turns::Turn* turn);
  std::string inspect_bytes(const std::vector<std::uint8_t>& bytes, const std::string& path,
                            const std::string& name, Compute& compute, Turns::Turn& turn);
  void note_file(const std::string& trouble);
  void load_pins();
  std::string pinned(const std::string& station) const;
  std::string product_of(const std::string& station, const std::string& task) const;
  /// `before` is called when nothing is left that could be refused.
  void learn(const Lesson& lesson, Compute& compute, const std::function<void()>& before = {});
  void take(const Lesson& lesson, const Patches& patches, Compute& compute,
            const std::function<void()>& before = {});
  std::string who(const HttpRequest& request) const;
  nlohmann::json shown(const StoredInspection& row) const;
  HttpResponse created(const StoredInspection& row) const;
  Forgotten take_back(const Forget& what, Compute& compute);
  void change_memory(const std::function<void()>& change);
  void follow_lessons();
  void rename_pins(const std::string& from, const std::string& to);
  void show_defect(const StoredInspection& row, const std::optional<DefectBox>& region,
                   const std::string& who, const std::function<void()>& before, Compute& compute);
  void follow_renames(const std::vector<TaughtLesson>& before);
  void check_right_to_forget(const HttpRequest& request, const Forget& what);
  void note_good(std::int64_t id, const std::string& time);
  void store_good();
  void take_over_thresholds();
  StoredInspection stored(const Params& params);
  struct Export;
  HttpResponse export_as(const HttpRequest& request, bool csv);
  std::string next_piece(Export& work, HttpStream& stream);
  std::string small_picture(const StoredInspection& row, std::size_t side);
  struct Layers {
    Map map;
    float level;
  };
  Layers layers(const StoredInspection& row);
  std::shared_ptr<const GridRegion> inside_of(const StoredInspection& row, const StoredMap& kept,
                                              const NetworkInput& input) const;
  TaskPromise promise_of(const std::string& task, const std::optional<Threshold>& threshold);
  nlohmann::json warnings(const Memory& memory);
  std::string unread_files();
  nlohmann::json task(const Memory& memory, std::size_t task, const TaskState& state);
  void idle(Compute& compute);
  void keep();
  void note_kept(const std::string& why_not);
  void note_gpu();
  Device device() const;
  void show_device(Metrics& metrics);
  void sample();
  void stop_learning(const std::string& reason);
  void resume_learning(Compute& compute);

  const ServiceOptions& options_;
  LiveMemory& live_;
  Store& store_;
  Outputs& outputs_;
  Cameras& cameras_;
  const Calendar calendar_;
  Promises promises_{store_};
  Jobs jobs_;
  Metrics metrics_;
  std::vector<Route> routes_;
  std::atomic<bool> winding_down_ = false;
  std::atomic<int> exports_ = 0;  // under way
  std::atomic<bool> watch_gone_ = false;
  bool said_empty_ = false;        // for the watch's thread alone
  Turns file_turns_;               // the same
  std::optional<RateLimit> rate_;  // for the server's thread alone
  Compute no_crew_{1};             // the same
  Compute alone_;                  // for the learner's thread alone
  std::optional<GpuInfo> gpu_;     // of the device, if it is one
  bool noted_gpu_ = false;         // for the keeper's thread alone: that it failed
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();

  mutable std::mutex mutex_;  // of what follows
  // Inspections that the journal has and the store may not.
  std::map<std::int64_t, Store::CalledGood> good_;
  std::chrono::steady_clock::time_point noted_frame_{};  // one that could not be judged
  std::map<std::string, Turns> frame_turns_;             // by station
  std::size_t unread_files_ = 0;                         // of the watched folder
  std::string unread_file_;                              // the last, and why
  std::chrono::steady_clock::time_point unread_at_{};
  std::map<std::string, std::string> pins_;  // the product of each station that has one
  std::string stopped_;                      // why nothing is learned; empty: it is
  std::string unkept_;                       // why the last inspection was not kept; empty: it was
  bool learning_ = false;
  std::chrono::steady_clock::time_point learned_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point sampled_;

  std::unique_ptr<Executor> inspectors_;
  std::unique_ptr<Executor> query_;
  std::unique_ptr<Executor> pictures_;
  std::unique_ptr<Executor> learner_;
  std::map<std::string, std::unique_ptr<Executor>> shots_;  // of stations that ask for frames
  std::unique_ptr<Executor> keeper_;                        // last: it keeps what the others leave
};

}  // namespace contcore
