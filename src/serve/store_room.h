// What has to go so that the store keeps to its size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "serve/sqlite.h"
#include "serve/store.h"
#include "serve/store_outputs.h"
#include "serve/store_transaction.h"

namespace contcore {

/// What an inspection keeps besides its row; the column "keeps".
enum class Keeps : std::int64_t { kNothing = 0, kImage = 1, kEvidence = 2 };

/// Adds what one inspection keeps to the tally, or takes it away.
void add_kept(StoreTally& tally, Keeps keeps, std::size_t bytes);
void take_kept(StoreTally& tally, Keeps keeps, std::size_t bytes);

/// Removes the oldest images and rows as Retention says (store.h). Inside a transaction.
class StoreRoom {
 public:
  /// `outputs` hear of the rows that go.
  StoreRoom(sqlite3* db, const std::string& path, const Retention& retention,
            StoreOutputs& outputs);

  /// A few at a time: after less is to be kept than before, the rest goes with the calls that
  /// follow.
  void make(StoreTally& tally);

 private:
  struct Oldest {
    std::int64_t id;
    std::size_t bytes;
    Keeps keeps;
  };
  std::optional<Oldest> oldest(Keeps keeps);
  std::optional<Oldest> oldest_image(const StoreTally& tally);
  std::optional<Oldest> oldest_row(const StoreTally& tally);
  void drop_image(const Oldest& inspection, StoreTally& tally);

  Retention retention_;
  StoreOutputs& outputs_;
  Statement oldest_;
  Statement delete_image_;
  Statement delete_map_;
  Statement keep_nothing_;
  Statement delete_row_;
};

}  // namespace contcore
