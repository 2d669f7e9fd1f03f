// Results and their parts as the bytes that ranks say to each other.
#pragma once

#include "contcore/evaluate.h"
#include "device/packing.h"

namespace contcore {

void put_measures(Packer& packer, const Measures& measures);
Measures get_measures(Unpacker& from);

/// A verdict's pictures alone.
void put_pictures(Packer& packer, const Verdict& verdict);
void get_pictures(Unpacker& from, Verdict& verdict);

/// All of it, as it comes out of the cache of results: names that are not UTF-8 are not kept.
void put_result(Packer& packer, const RunResult& result);
RunResult get_result(Unpacker& from);

}  // namespace contcore
