// Journals. The first byte says how much is made right before it is read, since checksums are never
// hit upon: bit 0 the magic bytes and the parent, bit 1 the checksums of the records.
#include "memory/journal.h"

#include <algorithm>
#include <vector>

#include "fuzz.h"
#include "memory/journal_format.h"

using namespace contcore;

namespace {

void mend_header(std::vector<std::uint8_t>& bytes, const JournalParent& parent) {
  using namespace journal_format;
  if (bytes.size() < kHeaderBytes) return;
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  std::copy(parent.begin(), parent.end(), bytes.begin() + kParentAt);
}

void mend_records(std::vector<std::uint8_t>& bytes, const JournalParent& parent) {
  using namespace journal_format;
  const std::uint32_t seed = crc32c(0, parent);
  for (std::size_t at = kHeaderBytes; at + kRecordHeaderBytes <= bytes.size();) {
    RecordHeader header = load_header(bytes.data() + at);
    const std::size_t room = bytes.size() - at - kRecordHeaderBytes;
    if (header.length > room) return;
    const fuzz::Bytes payload(bytes.data() + at + kRecordHeaderBytes, header.length);
    header.checksum = checksum(seed, bytes.data() + at, payload);
    store_header(bytes.data() + at, header);
    at += kRecordHeaderBytes + header.length;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  const std::uint8_t how = fuzz::take(input);
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  JournalParent parent{};
  parent.fill('p');
  if ((how & 1) != 0) mend_header(bytes, parent);
  if ((how & 2) != 0) mend_records(bytes, parent);
  JournalLimits limits;
  limits.record_bytes = 64;
  fuzz::taken([&] {
    const JournalContent content = parse_journal(bytes, parent, limits, "journal");
    fuzz::expect(content.good_bytes <= bytes.size());
    fuzz::expect(content.torn || content.good_bytes == bytes.size());
    for (const auto& record : content.records) {
      fuzz::expect(record.data() >= bytes.data() &&
                   record.data() + record.size() <= bytes.data() + content.good_bytes);
    }
    if (content.good_bytes == 0) return;
    // What was good is so again when the rest is cut off.
    const auto again =
        parse_journal(fuzz::Bytes(bytes).first(content.good_bytes), parent, limits, "journal");
    fuzz::expect(!again.torn && again.records.size() == content.records.size());
  });
  return 0;
}
