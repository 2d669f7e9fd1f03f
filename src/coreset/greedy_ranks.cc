// In: this rank's points, base and options. Out: the picks of all points, with their vectors. Fails
// as greedy_sample does, on all ranks.
#include "coreset/greedy_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/random.h"
#include "base/rows.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "coreset/greedy_bounds.h"
#include "coreset/greedy_budget.h"
#include "coreset/greedy_round.h"
#include "coreset/greedy_state.h"
#include "coreset/greedy_survivors.h"
#include "coreset/ranks_mean.h"
#include "device/packing.h"

namespace contcore {
namespace {

using Key = SurvivorSampler::Key;

constexpr std::size_t kThresholdSample = 1024;  // bounds, of all ranks
constexpr std::size_t kKeptBytes = std::size_t{16} << 20;

// Vectors that were sent and may be candidates again (or were picked), the same ones on all ranks:
// the latest.
class SentVectors {
 public:
  SentVectors() = default;
  SentVectors(std::size_t most, VectorView like)
      : store_(most, like.cols, kept_as(like.scalar)), id_of_(most, kNone) {}

  bool has(std::uint64_t id) const { return place_.contains(id); }
  VectorView at(std::uint64_t id) const { return store_.view().part(place_.at(id), 1); }
  void add(std::uint64_t id, VectorView vector) {
    if (id_of_.empty()) return;
    if (id_of_[next_] != kNone) place_.erase(id_of_[next_]);
    store_.set_rows(next_, vector);
    id_of_[next_] = id;
    place_[id] = next_;
    next_ = (next_ + 1) % id_of_.size();
  }

  static Scalar kept_as(Scalar scalar) {
    return scalar == Scalar::kUint8 ? Scalar::kUint8 : Scalar::kFloat32;
  }

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  Vectors store_;
  std::vector<std::uint64_t> id_of_;
  std::unordered_map<std::uint64_t, std::size_t> place_;
  std::size_t next_ = 0;
};

// What a rank says before candidates are sent.
struct Survey {
  std::uint8_t stop = 0;
  std::uint64_t active = 0;     // points that the round brought up to date
  std::uint64_t survivors = 0;  // of at least the threshold
  std::vector<Key> keys;        // the first of them, the 2nd, 4th, 8th, …

  Ranks::Bytes packed() const {
    Packer packer;
    packer.put(stop);
    packer.put(active);
    packer.put(survivors);
    packer.put_all(keys);
    return packer.bytes();
  }
  static Survey unpacked(const Ranks::Bytes& bytes) {
    Unpacker from(bytes);
    Survey survey;
    survey.stop = from.get<std::uint8_t>();
    survey.active = from.get<std::uint64_t>();
    survey.survivors = from.get<std::uint64_t>();
    survey.keys = from.get_all<Key>();
    return survey;
  }
};

// The key before or at which about `most` survivors lie, as far as the surveys say where.
Key cut_for(const std::vector<Survey>& surveys, std::size_t most) {
  struct Step {
    Key key;
    std::size_t more;  // that lie before or at it than before or at the one before
  };
  std::vector<Step> steps;
  for (const Survey& survey : surveys) {
    std::size_t before = 0;
    for (std::size_t j = 0; j < survey.keys.size(); ++j) {
      const std::size_t here = std::size_t{1} << j;
      steps.push_back({survey.keys[j], here - before});
      before = here;
    }
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.key.comes_before(b.key); });
  std::size_t count = 0;
  for (const Step& step : steps) {
    count += step.more;
    if (count >= most) return step.key;
  }
  return steps.back().key;
}

class RankSampler {
 public:
  RankSampler(const Points& points, VectorView base, const GreedyOptions& options, Compute& compute,
              const GreedyTuning& tuning, const RankGreedyLimits& limits)
      : points_(points),
        ranks_(*points.ranks),
        options_(options),
        compute_(compute),
        tuning_(tuning),
        limits_(limits),
        count_(std::min(options.count, points.rows)),
        state_(points.here, base) {}

  PickedPoints run() {
    do_on_all(&ranks_, [&] { prepare(); });
    check_reach_of_all();
    const std::vector<std::size_t> kept = all_of<std::size_t>(&ranks_, {kept_rows()});
    sent_ = SentVectors(*std::min_element(kept.begin(), kept.end()), points_.here);
    if (state_.base.rows == 0) pick_first();
    while (!finished_) {
      round_.sweep();
      const float threshold = agree_on_threshold();
      const std::size_t active = round_.update(threshold);
      survivors_.begin(round_.survivors(), round_.dense());
      while (pick_some(threshold, active)) {
      }
      survivors_.end();
    }
    if (options_.progress) options_.progress(1.0);
    count_stages();
    Vectors vectors = all_picked();
    return {std::move(state_.result), std::move(vectors)};
  }

 private:
  bool is_here(std::uint64_t id) const {
    return id >= points_.first && id < points_.first + points_.here.rows;
  }
  std::size_t row_bytes() const {
    return points_.here.cols * bytes_of(SentVectors::kept_as(points_.here.scalar));
  }

  // A rank sketches the others' picks about its own centre, which may lie far from them.
  void check_reach_of_all() {
    if (points_.here.scalar == Scalar::kUint8) return;  // bytes never do
    struct Reach {
      double centre;
      double farthest;  // from zero
    };
    Reach mine{state_.sketch.centre_length(), 0};
    for (std::size_t i = 0; i < points_.here.rows; ++i) {
      const auto squared =
          static_cast<double>(state_.sketch.tail(state_.sketches.byte_row(i)).squared_distance);
      mine.farthest = std::max(mine.farthest, std::sqrt(squared) + mine.centre);
    }
    Reach most{0, 0};
    for (const Reach& theirs : all_of<Reach>(&ranks_, {mine})) {
      most = {std::max(most.centre, theirs.centre), std::max(most.farthest, theirs.farthest)};
    }
    const double squared = (most.centre + most.farthest) * (most.centre + most.farthest);
    if (squared < 0x1p123) return;  // where StepSketch::embed refuses with its own rounding
    throw RanksError(Error::Kind::kInput,
                     options_.points_name +
                         ": values so large that squared distances may overflow float32; scale the "
                         "vectors down (norms up to 1e18 are fine)");
  }

  // How many vectors this rank would keep of those that were sent.
  std::size_t kept_rows() const {
    const std::size_t limit = options_.memory_limit;
    const std::size_t bytes = limit > 0 ? std::min(kKeptBytes, limit / 4) : kKeptBytes;
    return std::min(limits_.kept, bytes / std::max<std::size_t>(1, row_bytes()));
  }

  // ---- preparation: nothing is said to other ranks -------------------------------------------

  void prepare() {
    const VectorView& here = points_.here;
    const VectorView& base = state_.base;
    check_greedy(here, points_.rows, base, options_);
    GreedyOptions mine = options_;
    if (options_.memory_limit > 0) {
      // Not for the sketch: the picks of all, and what is kept of what was sent. What one process
      // could do is done all the same.
      const std::size_t taken = count_ * row_bytes() + kept_rows() * row_bytes();
      const std::size_t least = greedy_least_memory(here, base.rows, options_.count);
      const std::size_t rest = mine.memory_limit - std::min(mine.memory_limit, taken);
      mine.memory_limit = std::min(mine.memory_limit, std::max(rest, least));
    }
    const std::size_t width = tuning_.width ? *tuning_.width : greedy_width(here, base, mine);
    state_.sketch = StepSketch(here, base, width, compute_);
    Progress progress;
    if (options_.progress) {
      progress = [this](double part) { return options_.progress(part * kPrepared); };
    }
    state_.sketches = state_.sketch.embed(here, options_.points_name, compute_, nullptr, progress);
    state_.base_sketches = state_.sketch.embed(base, options_.base_name, compute_);
    state_.workers.resize(compute_.threads().count());
    state_.bound.assign(here.rows, kInfinity);
    state_.seen.assign(here.rows, static_cast<std::uint32_t>(base.rows));
    state_.base_seen.assign(base.rows > 0 ? here.rows : 0, 0);
    state_.pending.assign(state_.sketch.width() > 0 ? here.rows : 0, kNothingPending);
    for (std::size_t i = 0; i < base.rows; ++i) {
      state_.centres.add(base, i, state_.base_sketches.byte_row(i));
    }
  }

  // The first pick on an empty base, as greedy_sample has it.
  void pick_first() {
    struct First {
      float distance = -1;  // none
      std::uint64_t id = 0;
    };
    First mine;
    if (options_.start == GreedyOptions::Start::kMean) {
      const std::vector<float> mean = mean_of_points(points_, compute_);
      if (points_.here.rows > 0) {
        const std::size_t i = farthest_from_mean(state_, mean);
        std::vector<float> scratch(points_.here.cols);
        mine.id = points_.first + i;
        mine.distance =
            squared_distance(points_.here.row(i, scratch.data()), mean.data(), points_.here.cols);
      }
    } else {
      mine.id = options_.start == GreedyOptions::Start::kRandom
                    ? Random(options_.seed).below(points_.rows)
                    : options_.start_index;
      if (is_here(mine.id)) mine.distance = 0;
    }
    Packer packer;
    packer.put(mine);
    if (mine.distance >= 0) packer.put_rows(copied(mine.id).view());
    First first;
    Vectors vector = one_row();
    for (const Ranks::Bytes& said : ranks_.all_gather(packer.bytes())) {
      Unpacker from(said);
      const First theirs = from.get<First>();
      if (!(theirs.distance > first.distance)) continue;  // ranks come in order of their ids
      first = theirs;
      from.get_rows(vector, 0, 1);
    }
    add_picks({first.id}, {kInfinity}, std::move(vector));
    bound_by_triangle(state_, 0);
  }

  Vectors one_row() const {
    return Vectors(1, points_.here.cols, SentVectors::kept_as(points_.here.scalar));
  }
  Vectors copied(std::uint64_t id) const {
    Vectors row = one_row();
    row.set_rows(0, points_.here.part(static_cast<std::size_t>(id) - points_.first, 1));
    return row;
  }

  // ---- rounds --------------------------------------------------------------------------------

  // As one rank has it: about the round's size-th largest bound, from a sample of all ranks'.
  float agree_on_threshold() {
    const std::size_t rows = points_.rows;
    const std::size_t part =
        (kThresholdSample * points_.here.rows + rows - 1) / std::max<std::size_t>(1, rows);
    std::vector<float> sample = all_of(&ranks_, round_.some_bounds(part));
    const std::size_t picks = state_.result.picks.size();
    return greedy_threshold(sample, greedy_round_size(rows, picks, tuning_) * sample.size() / rows);
  }

  // Steps 1 to 4. False when there are no survivors any more, or all is picked.
  bool pick_some(float threshold, std::size_t active) {
    survivors_.keys(threshold, points_.first, keys_);
    const std::vector<Survey> surveys = survey(active);
    std::uint64_t all_active = 0;
    std::uint64_t all = 0;
    for (const Survey& one : surveys) {
      all_active += one.active;
      all += one.survivors;
    }
    if (all_active == 0) finished_ = true;  // every point left coincides with a centre
    if (all == 0) return false;
    const Key cut = all > limits_.candidates
                        ? cut_for(surveys, limits_.candidates)
                        : Key{threshold, std::numeric_limits<std::uint64_t>::max()};
    gather_candidates(cut);
    pick_candidates(cut, threshold);
    report();
    return !finished_;
  }

  std::vector<Survey> survey(std::size_t active) {
    Survey mine;
    mine.stop = stop_ ? 1 : 0;
    mine.active = active;
    mine.survivors = keys_.size();
    const std::size_t most = std::min(keys_.size(), 2 * limits_.candidates);
    std::partial_sort(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(most), keys_.end(),
                      [](const Key& a, const Key& b) { return a.comes_before(b); });
    for (std::size_t n = 1; n <= most; n *= 2) mine.keys.push_back(keys_[n - 1]);
    std::vector<Survey> all;
    bool stop = false;
    for (const Ranks::Bytes& said : ranks_.all_gather(mine.packed())) {
      all.push_back(Survey::unpacked(said));
      stop |= all.back().stop != 0;
    }
    if (stop) throw RanksError(Error::Kind::kCancelled, "stopped");
    return all;
  }

  // Step 2.
  void gather_candidates(const Key& cut) {
    std::vector<Key> mine;
    for (const Key& key : keys_) {
      if (!cut.comes_before(key)) mine.push_back(key);
    }
    Packer packer;
    packer.put_all(mine);
    for (const Key& key : mine) {
      if (!sent_.has(key.id)) packer.put_rows(copied(key.id).view());
    }
    const std::vector<Ranks::Bytes> said = ranks_.all_gather(packer.bytes());
    std::vector<Unpacker> from(said.begin(), said.end());
    candidates_.clear();
    std::vector<std::size_t> ends;
    for (Unpacker& rank : from) {
      const std::vector<Key> theirs = rank.get_all<Key>();
      candidates_.insert(candidates_.end(), theirs.begin(), theirs.end());
      ends.push_back(candidates_.size());
    }
    vectors_ =
        Vectors(candidates_.size(), points_.here.cols, SentVectors::kept_as(points_.here.scalar));
    std::vector<std::size_t> fresh;
    for (std::size_t i = 0, r = 0; i < candidates_.size(); ++i) {
      while (i == ends[r]) ++r;
      if (sent_.has(candidates_[i].id)) {
        vectors_.set_rows(i, sent_.at(candidates_[i].id));
      } else {
        from[r].get_rows(vectors_, i, 1);
        fresh.push_back(i);
      }
    }
    for (const std::size_t i : fresh) sent_.add(candidates_[i].id, vectors_.view().part(i, 1));
  }

  // Steps 3 and 4.
  void pick_candidates(const Key& cut, float threshold) {
    const std::size_t n = candidates_.size();
    RowBatch all;
    all.reset(points_.here.cols, n);
    for (std::size_t i = 0; i < n; ++i) all.add(vectors_.view(), i);
    std::vector<float> distances(n);
    std::vector<std::size_t> picked;
    std::vector<float> radii;
    while (true) {
      const auto first =
          std::min_element(candidates_.begin(), candidates_.end(),
                           [](const Key& a, const Key& b) { return a.comes_before(b); });
      if (cut.comes_before(*first)) break;
      if (state_.result.picks.size() + picked.size() == count_) {
        state_.result.covering_radius = std::sqrt(first->value);
        finished_ = true;
        break;
      }
      const auto i = static_cast<std::size_t>(first - candidates_.begin());
      picked.push_back(i);
      radii.push_back(first->value);
      RowBatch one;
      one.reset(points_.here.cols, 1);
      one.add(vectors_.view(), i);
      one.measure(all, distances.data());
      for (std::size_t j = 0; j < n; ++j) {
        candidates_[j].value = std::min(candidates_[j].value, distances[j]);
      }
      first->value = kPicked;
    }
    if (picked.empty()) return;
    std::vector<std::uint64_t> ids;
    Vectors vectors(picked.size(), points_.here.cols, vectors_.scalar());
    for (std::size_t k = 0; k < picked.size(); ++k) {
      ids.push_back(candidates_[picked[k]].id);
      vectors.set_rows(k, vectors_.view().part(picked[k], 1));
    }
    const std::size_t before = state_.centres.size();
    const double error = state_.sketch.error();
    add_picks(ids, radii, std::move(vectors));
    if (state_.sketch.error() > error) survivors_.set_gates();
    for (const std::uint64_t id : ids) {
      if (is_here(id)) survivors_.picked(static_cast<std::uint32_t>(id - points_.first));
    }
    for (std::size_t c = before; c < state_.centres.size(); ++c) {
      survivors_.compare(c, threshold);
    }
  }

  // The sketch is this rank's own, so that it sketches the others' picks too.
  void add_picks(const std::vector<std::uint64_t>& ids, const std::vector<float>& squared_radii,
                 Vectors vectors) {
    picked_.push_back(std::move(vectors));
    const VectorView rows = picked_.back().view();
    sketches_.push_back(state_.sketch.embed(rows, "picks", compute_));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      state_.result.picks.push_back(static_cast<std::int64_t>(ids[i]));
      state_.result.radii.push_back(std::sqrt(squared_radii[i]));
      state_.centres.add(rows, i, sketches_.back().byte_row(i));
      if (is_here(ids[i])) {
        state_.bound[static_cast<std::size_t>(ids[i]) - points_.first] = kPicked;
      }
    }
  }

  Vectors all_picked() const {
    Vectors all(state_.result.picks.size(), points_.here.cols,
                SentVectors::kept_as(points_.here.scalar));
    std::size_t at = 0;
    for (const Vectors& some : picked_) {
      all.set_rows(at, some.view());
      at += some.rows();
    }
    return all;
  }

  // Of all ranks, whose sketches may be of several widths.
  void count_stages() {
    round_.count_stages(state_.result);
    Packer packer;
    packer.put(state_.result.full_distances);
    for (const GreedyStage& stage : state_.result.stages) {
      packer.put_text(stage.name);
      packer.put(stage.settled);
    }
    state_.result.stages.clear();
    state_.result.full_distances = 0;
    for (const Ranks::Bytes& said : ranks_.all_gather(packer.bytes())) {
      Unpacker from(said);
      state_.result.full_distances += from.get<std::uint64_t>();
      while (!from.empty()) {
        const std::string name = from.get_text();
        add_stage(name, from.get<std::uint64_t>());
      }
    }
  }
  void add_stage(const std::string& name, std::uint64_t settled) {
    std::vector<GreedyStage>& stages = state_.result.stages;
    const auto same = std::find_if(stages.begin(), stages.end(),
                                   [&](const GreedyStage& stage) { return stage.name == name; });
    if (same != stages.end()) {
      same->settled += settled;
    } else {
      stages.push_back({name, settled});
    }
  }

  // Who is told to stop says so with the next step, to all.
  void report() {
    const double part = part_done(state_.result.picks.size(), std::max<std::size_t>(1, count_));
    const double done = kPrepared + (1 - kPrepared) * std::min(1.0, part) * 0.999;
    if (options_.progress && !options_.progress(done)) stop_ = true;
  }

  static constexpr double kPrepared = 0.1;  // of the progress

  const Points& points_;
  Ranks& ranks_;
  const GreedyOptions& options_;
  Compute& compute_;
  const GreedyTuning& tuning_;
  const RankGreedyLimits& limits_;
  std::size_t count_;
  GreedyState state_;
  GreedyRound round_{state_, compute_, tuning_};
  SurvivorSampler survivors_{state_, compute_};
  SentVectors sent_;
  bool stop_ = false;
  bool finished_ = false;

  std::vector<Vectors> picked_;    // some at a time
  std::vector<Vectors> sketches_;  // of these
  std::vector<Key> keys_;          // of this rank's survivors
  std::vector<Key> candidates_;    // of all ranks
  Vectors vectors_;                // of these
};

}  // namespace

PickedPoints greedy_sample_on_ranks(const Points& points, VectorView base,
                                    const GreedyOptions& options, Compute& compute,
                                    const GreedyTuning& tuning, const RankGreedyLimits& limits) {
  return RankSampler(points, base, options, compute, tuning, limits).run();
}

}  // namespace contcore
