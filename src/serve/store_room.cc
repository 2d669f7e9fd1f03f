#include "serve/store_room.h"

#include <algorithm>

namespace contcore {
namespace {

// Of images, and of rows, that one call removes: a pause of milliseconds at the worst.
constexpr int kMostRemoved = 256;

constexpr char kRemoving[] = "removing what is oldest";

std::size_t nine_tenths(std::size_t of) { return of - of / 10; }

void take(std::size_t& from, std::size_t amount) { from -= std::min(from, amount); }

}  // namespace

void add_kept(StoreTally& tally, Keeps keeps, std::size_t bytes) {
  tally.kept_bytes += bytes;
  if (keeps != Keeps::kEvidence) return;
  ++tally.evidence;
  tally.evidence_bytes += bytes;
}

void take_kept(StoreTally& tally, Keeps keeps, std::size_t bytes) {
  take(tally.kept_bytes, bytes);
  if (keeps != Keeps::kEvidence) return;
  take(tally.evidence, 1);
  take(tally.evidence_bytes, bytes);
}

StoreRoom::StoreRoom(sqlite3* db, const std::string& path, const Retention& retention,
                     StoreOutputs& outputs)
    : retention_(retention),
      outputs_(outputs),
      oldest_(db, path,
              "SELECT id, kept_bytes FROM inspection WHERE keeps = ?1 ORDER BY id LIMIT 1"),
      delete_image_(db, path, "DELETE FROM image WHERE id = ?1"),
      delete_map_(db, path, "DELETE FROM map WHERE id = ?1"),
      keep_nothing_(db, path,
                    "UPDATE inspection SET keeps = 0, kept_bytes = 0, has_image = 0 WHERE id = ?1"),
      delete_row_(db, path, "DELETE FROM inspection WHERE id = ?1") {}

std::optional<StoreRoom::Oldest> StoreRoom::oldest(Keeps keeps) {
  const ResetGuard reset(oldest_);
  oldest_.bind(1, static_cast<std::int64_t>(keeps));
  if (!oldest_.step(kRemoving)) return {};
  const auto bytes = std::max<std::int64_t>(oldest_.integer(1), 0);
  return Oldest{oldest_.integer(0), static_cast<std::size_t>(bytes), keeps};
}

std::optional<StoreRoom::Oldest> StoreRoom::oldest_image(const StoreTally& tally) {
  if (tally.evidence_bytes <= nine_tenths(retention_.image_bytes)) {
    if (const auto image = oldest(Keeps::kImage)) return image;
  }
  const auto evidence = oldest(Keeps::kEvidence);
  return evidence ? evidence : oldest(Keeps::kImage);
}

std::optional<StoreRoom::Oldest> StoreRoom::oldest_row(const StoreTally& tally) {
  const auto bare = oldest(Keeps::kNothing);
  const auto image = oldest(Keeps::kImage);
  const auto either = bare && (!image || bare->id < image->id) ? bare : image;
  if (either && tally.evidence <= nine_tenths(retention_.inspections)) return either;
  const auto evidence = oldest(Keeps::kEvidence);
  return evidence ? evidence : either;
}

void StoreRoom::drop_image(const Oldest& inspection, StoreTally& tally) {
  for (Statement* statement : {&delete_image_, &delete_map_, &keep_nothing_}) {
    statement->bind(1, inspection.id);
    statement->run(kRemoving);
  }
  take_kept(tally, inspection.keeps, inspection.bytes);
}

void StoreRoom::make(StoreTally& tally) {
  for (int i = 0; i < kMostRemoved && tally.kept_bytes > retention_.image_bytes; ++i) {
    const auto image = oldest_image(tally);
    if (!image) break;
    drop_image(*image, tally);
  }
  for (int i = 0; i < kMostRemoved && tally.inspections > retention_.inspections; ++i) {
    const auto row = oldest_row(tally);
    if (!row) break;
    if (row->keeps != Keeps::kNothing) drop_image(*row, tally);
    delete_row_.bind(1, row->id);
    delete_row_.run(kRemoving);
    outputs_.removed(row->id);
    take(tally.inspections, 1);
  }
}

}  // namespace contcore
