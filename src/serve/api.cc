// Who may ask for what, and where it is done. In: requests. Out: answers, also those that refuse.
#include "serve/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/cameras.h"
#include "serve/clock.h"
#include "serve/service.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kJsonBytes = 16 << 10;
constexpr std::size_t kForgetBytes = 1 << 20;  // many names
constexpr std::size_t kListBytes = 256 << 10;  // of as many numbers as a job has images
constexpr std::size_t kRegionBytes = 1 << 20;  // with a mask
constexpr std::size_t kQueryQueue = 512;
constexpr std::size_t kPicturesQueue = 256;
constexpr std::size_t kLearnerQueue = 64;
// Learning stands back behind inspections: a tenth of a core's time while both cores are busy.
constexpr int kLearnerNice = 10;
constexpr int kPicturesNice = 5;

HttpResponse refusal(int status, std::string_view detail) {
  HttpResponse response = problem(status, reason_of(status), detail);
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

// Whether a Host header is this machine, or an address in figures: another name may be somebody
// else's who lets it point here, so that their page can ask us (DNS rebinding).
bool is_own_host(std::string_view host) {
  if (host.starts_with("[")) {
    const std::string_view inside = host.substr(1, host.find(']') - 1);
    return inside.find_first_not_of("0123456789abcdefABCDEF:.") == inside.npos;
  }
  std::string name(host.substr(0, host.find(':')));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (name == "localhost") return true;
  return !name.empty() && name.find_first_not_of("0123456789.") == name.npos;
}

}  // namespace

Api::Api(const ServiceOptions& options, LiveMemory& live, Store& store, Outputs& outputs,
         Cameras& cameras)
    : options_(options),
      live_(live),
      store_(store),
      outputs_(outputs),
      cameras_(cameras),
      calendar_(options.shifts),
      routes_(routes(options.http.body)),
      alone_(1, options.device) {
  if (options.rate > 0) rate_.emplace(options.rate, std::max(1.0, 2 * options.rate));
  store_.learned_up_to(images_in(*live_.memory()));
  store_.pass_over(live_.last_inspection());
  for (const auto& [id, time] : live_.good()) note_good(id, time);
  load_pins();
  for (const auto& [from, to] : live_.renames()) {
    if (live_.memory()->find_task(from)) continue;
    store_.rename_task(from, to);
    rename_pins(from, to);
  }
  live_.before_checkpoint([this] { store_good(); });
  take_over_thresholds();
  try {
    store_good();
    store_.taken_back(live_.taken_back());
  } catch (const Error& error) {
    if (options_.note) options_.note(error.what());  // before the journal is begun anew it must
  }
  if (!options.device.is_cpu()) {
    for (const GpuInfo& gpu : find_gpus().all) {
      if (gpu.device == options.device) gpu_ = gpu;
    }
    if (gpu_ && options.note) options.note("inspects and learns on " + gpu_->text());
  }
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  Executor::Options how;
  how.threads = options.threads != 0 ? options.threads : cores;
  how.device = options.device;
  how.most = options.queue;
  how.note = options.note;
  if (live_.extractor().geometry().tile != 0) {  // each by all threads: it takes much memory
    how.crew = std::exchange(how.threads, 1);
  }
  inspectors_ = std::make_unique<Executor>(how);
  how.threads = 1;
  how.crew = 1;
  // One that is silent keeps nobody waiting but those who ask for its frames.
  for (const std::string& station : cameras.stations_that_ask()) {
    shots_[station] = std::make_unique<Executor>(how);
  }
  how.device = {};
  how.most = kQueryQueue;
  query_ = std::make_unique<Executor>(how);
  how.most = kPicturesQueue;
  how.nice = kPicturesNice;
  pictures_ = std::make_unique<Executor>(how);
  how.device = options.device;
  how.crew = cores;
  how.most = kLearnerQueue;
  how.nice = kLearnerNice;
  how.idle = [this](Compute& compute) { idle(compute); };
  learner_ = std::make_unique<Executor>(how);
  Executor::Options often;  // every 200 ms
  often.note = options.note;
  often.idle = [this](Compute&) { keep(); };
  keeper_ = std::make_unique<Executor>(often);
  sample();
}

Api::~Api() { finish(); }

void Api::finish() {
  inspectors_->finish();
  for (const auto& [station, executor] : shots_) executor->finish();
  query_->finish();
  pictures_->finish();
  learner_->finish();
  keeper_->finish();
}

std::vector<Api::Route> Api::routes(std::size_t image) {
  using enum Where;
  constexpr std::optional<Role> open;
  constexpr auto look = Role::kInspect;
  constexpr auto learn = Role::kLearn;
  constexpr std::string_view any;
  const std::string_view v1 = "v1";
  const std::string_view seen = "inspections";
  return {
      {"GET", {}, &Api::page, kQuery, open, 0},
      {"GET", {"health"}, &Api::health, kAtOnce, open, 0},
      {"GET", {"ready"}, &Api::ready, kAtOnce, open, 0},
      {"GET", {"metrics"}, &Api::metrics, kQuery, look, 0},
      {"GET", {v1, "status"}, &Api::status, kQuery, look, 0},
      {"GET", {v1, "tasks"}, &Api::tasks, kQuery, look, 0},
      {"GET", {v1, "tasks", any, "scores"}, &Api::scores, kQuery, look, 0},
      {"PUT",
       {v1, "tasks", any, "threshold"},
       &Api::set_threshold,
       kLearner,
       Role::kAdmin,
       kJsonBytes},
      {"GET", {v1, "history"}, &Api::history, kQuery, look, 0},
      {"POST", {v1, seen}, &Api::inspect, kInspector, look, image},
      {"GET", {v1, seen}, &Api::inspections, kQuery, look, 0},
      {"GET", {v1, "inspections.csv"}, &Api::export_csv, kQuery, look, 0},
      {"GET", {v1, "inspections.json"}, &Api::export_json, kQuery, look, 0},
      {"GET", {v1, "statistics"}, &Api::statistics, kQuery, look, 0},
      {"GET", {v1, "report"}, &Api::report, kPictures, look, 0},
      {"GET", {v1, seen, any}, &Api::inspection, kQuery, look, 0},
      {"GET", {v1, seen, any, "image"}, &Api::image, kQuery, look, 0},
      {"GET", {v1, seen, any, "map"}, &Api::map, kQuery, look, 0},
      {"GET", {v1, seen, any, "outline"}, &Api::outline, kQuery, look, 0},
      {"GET", {v1, seen, any, "region"}, &Api::region, kQuery, look, 0},
      {"POST", {v1, seen, any, "feedback"}, &Api::feedback, kLearner, learn, kJsonBytes},
      {"GET", {v1, "stations"}, &Api::stations, kQuery, look, 0},
      {"PUT", {v1, "stations", any}, &Api::pin_station, kQuery, Role::kAdmin, kJsonBytes},
      {"POST", {v1, "stations", any, "trigger"}, &Api::trigger, kCameras, look, 0},
      {"POST", {v1, "tasks", any, "images"}, &Api::learn_image, kLearner, learn, image},
      {"POST", {v1, "jobs"}, &Api::create_job, kQuery, learn, kRegionBytes},
      {"POST", {v1, "jobs", any, "images"}, &Api::job_image, kInspector, learn, image},
      {"POST", {v1, "jobs", any, "review"}, &Api::review_job, kQuery, learn, kJsonBytes},
      {"POST", {v1, "jobs", any, "start"}, &Api::start_job, kQuery, learn, kListBytes},
      {"GET", {v1, "jobs"}, &Api::jobs, kQuery, look, 0},
      {"GET", {v1, "jobs", any}, &Api::job, kQuery, look, 0},
      {"DELETE", {v1, "jobs", any}, &Api::cancel_job, kQuery, learn, kJsonBytes},
      {"GET", {v1, "lessons"}, &Api::lessons, kQuery, look, 0},
      {"POST", {v1, "lessons", "forget"}, &Api::forget, kLearner, learn, kForgetBytes},
      {"GET", {v1, "versions"}, &Api::versions, kQuery, look, 0},
      {"POST", {v1, "versions", any, "restore"}, &Api::restore, kLearner, Role::kAdmin, kJsonBytes},
      {"PUT", {v1, "tasks", any}, &Api::rename_task, kLearner, Role::kAdmin, kJsonBytes},
      {"GET", {any}, &Api::page, kQuery, open, 0},
  };
}

Api::Found Api::find(const HttpRequest& request) const {
  Found found;
  for (const Route& route : routes_) {
    if (route.pattern.size() != request.segments.size()) continue;
    Params params;
    bool same = true;
    for (std::size_t i = 0; i < route.pattern.size() && same; ++i) {
      if (route.pattern[i].empty()) {
        params.push_back(request.segments[i]);
      } else {
        same = route.pattern[i] == request.segments[i];
      }
    }
    if (!same) continue;
    if (request.method == route.method) return {&route, std::move(params), ""};
    // The page's files are not a path of the API.
    if (route.pattern != std::vector<std::string_view>{""}) {
      found.allowed += (found.allowed.empty() ? "" : ", ") + std::string(route.method);
    }
  }
  return found;
}

std::optional<HttpResponse> Api::refuse_stranger(const HttpRequest& head) const {
  const std::string_view host = head.header("host");
  const std::string_view origin = head.header("origin");
  if (!origin.empty() && origin != fmt::format("http://{}", host) &&
      origin != fmt::format("https://{}", host)) {
    return refusal(403, "a page of another site may not ask this service");
  }
  // A picture in a page, or a form, comes without an Origin; browsers say in this header who asked.
  const std::string_view site = head.header("sec-fetch-site");
  const bool is_visit = head.segments.empty() && head.method == "GET" &&
                        head.header("sec-fetch-mode") == "navigate" &&
                        head.header("sec-fetch-dest") == "document";
  if ((site == "cross-site" || site == "same-site") && !is_visit) {
    return refusal(403, "a page of another site may not ask this service");
  }
  if (options_.tokens.empty() && !is_own_host(host)) {
    return refusal(403, "without tokens this service answers to localhost and addresses only");
  }
  return std::nullopt;
}

HttpAdmission Api::admit(const HttpRequest& head) {
  const Found found = find(head);
  // The files of the page come all at once and cost nothing: they are not counted.
  const bool is_page = found.route != nullptr && found.route->handler == &Api::page;
  const auto refuse = [&](HttpResponse response) {
    count(found.route, response.status);
    return HttpAdmission{std::move(response)};
  };
  if (rate_ && !is_page) {
    if (const auto wait = rate_->refuse(head.client, Clock::now())) {
      HttpResponse response = refusal(429, "more requests than a client may make");
      response.headers.emplace_back("Retry-After", std::to_string(*wait));
      return refuse(std::move(response));
    }
  }
  if (auto stranger = refuse_stranger(head)) return refuse(std::move(*stranger));
  if (found.route == nullptr) {
    if (found.allowed.empty()) return refuse(refusal(404, "there is nothing of that name"));
    HttpResponse response = refusal(405, fmt::format("this can be asked by {}", found.allowed));
    response.headers.emplace_back("Allow", found.allowed);
    return refuse(std::move(response));
  }
  if (found.route->role && !options_.tokens.empty()) {
    const auto role = options_.tokens.role(head.header("authorization"));
    if (!role) return refuse(refusal(401, "a token is needed: Authorization: Bearer TOKEN"));
    if (*role < *found.route->role)
      return refuse(refusal(403, "this token's role does not allow it"));
  }
  return {std::nullopt, found.route->body};
}

void Api::handle(HttpRequest&& request, HttpReply reply) {
  Found found = find(request);
  const Route& route = *found.route;  // admit() has seen to it
  if (route.where == Where::kAtOnce) {
    HttpResponse response = answer(route, request, found.params, no_crew_);
    count(&route, response.status);
    return reply.send(std::move(response));
  }
  // std::function must be copyable, a reply is not.
  auto asked =
      std::make_shared<std::pair<HttpRequest, HttpReply>>(std::move(request), std::move(reply));
  const bool taken = executor_of(route, asked->first, found.params)
                         .submit([this, asked, &route, params = found.params](Compute& compute) {
                           HttpResponse response =
                               is_for_nobody(route, asked->first, params, asked->second)
                                   ? refusal(503, "the client left before this was begun")
                                   : answer(route, asked->first, params, compute);
                           count(&route, response.status);
                           asked->second.send(std::move(response));
                         });
  if (!taken) {
    count(&route, 503);
    asked->second.send(refusal(503, "too much waits already; try again in a moment"));
  }
}

Executor& Api::executor_of(const Route& route, const HttpRequest& request,
                           const Params& params) const {
  // A small image is made of a large one.
  if (route.handler == &Api::image && request.query.contains("side")) return *pictures_;
  switch (route.where) {
    case Where::kPictures:
      return *pictures_;
    case Where::kInspector:
      return *inspectors_;
    case Where::kLearner:
      return *learner_;
    case Where::kCameras: {
      const auto found = shots_.find(params[0]);
      return found == shots_.end() ? *query_ : *found->second;
    }
    default:
      return *query_;
  }
}

// Work that has waited for its turn is not begun for a client that is gone; queries are mostly
// done sooner than asked.
bool Api::is_for_nobody(const Route& route, const HttpRequest& request, const Params& params,
                        const HttpReply& reply) const {
  const bool is_much = &executor_of(route, request, params) != query_.get() ||
                       route.where != Where::kQuery || route.handler == &Api::map ||
                       route.handler == &Api::outline;
  return is_much && reply.client_has_left();
}

HttpResponse Api::answer(const Route& route, const HttpRequest& request, const Params& params,
                         Compute& compute) {
  try {
    return (this->*route.handler)(request, params, compute);
  } catch (const Refusal& refused) {
    HttpResponse response = refusal(refused.status, refused.detail);
    if (refused.confirm) {
      auto body = nlohmann::ordered_json::parse(response.body);
      body["confirm"] = true;
      response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    return response;
  } catch (const Error& error) {
    const int status = error.kind() == Error::Kind::kUsage   ? 400
                       : error.kind() == Error::Kind::kInput ? 503  // the disk: all else is refused
                                                             : 500;
    if (status == 500 && options_.note) options_.note(error.what());
    return refusal(status, error.what());
  } catch (const std::exception& error) {
    if (options_.note) options_.note(error.what());
    return refusal(500, "something went wrong here; the log says more");
  }
}

void Api::count(const Route* route, int status) {
  std::string name = "none";
  if (route != nullptr) {
    name = route->method;
    for (const std::string_view part : route->pattern) {
      name += '/' + std::string(part.empty() ? "{}" : part);
    }
  }
  metrics_
      .counter("contcore_requests_total", "Requests answered",
               {{"route", name}, {"status", std::to_string(status)}})
      .add();
}

}  // namespace contcore
