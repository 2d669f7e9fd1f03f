// The store's tables.
#pragma once

#include <sqlite3.h>

#include <string>
#include <string_view>

namespace contcore {

/// Runs SQL that has no values in it and whose rows nobody wants. Throws Error.
void execute(sqlite3* db, const std::string& path, const char* sql, std::string_view doing);

/// Sets the connection up and makes the tables if there are none; an earlier version's are brought
/// up to date. Throws Error: kInput for another program's database or a newer version's, kDamaged
/// for one whose tables are not ours.
void prepare_store(sqlite3* db, const std::string& path);

}  // namespace contcore
