// What a task may be called, and a station.
#pragma once

#include <string>
#include <string_view>

namespace contcore {

/// Why a new task cannot have this name, and what to do; empty: it can. A name is read by people,
/// in lists and logs, and told apart by its bytes: so two names that look the same must be the
/// same. It is UTF-8 in the form NFC, has 1 to 200 bytes, no blank at either end, and no character
/// that cannot be seen (controls, separators of lines, zero-width and direction marks). The joiners
/// of some scripts (ZWJ, ZWNJ) are among these: a name is understood without them, and with them it
/// has a twin.
///
/// Tasks that a memory knows already keep their names, whatever they are. `what` is who has the
/// name, for the message.
std::string task_name_fault(std::string_view name, std::string_view what = "task");

}  // namespace contcore
