#include "bulk_copies.h"

#include <string>

#include "violation.h"

namespace spider::emulator {

namespace {

std::string barrier_name(std::uint32_t barrier) {
  return "the barrier at shared byte " + std::to_string(barrier);
}

}  // namespace

void BulkCopies::begin(const Moment& now, std::uint32_t barrier, std::uint32_t bytes) {
  constexpr std::uint32_t barrier_bytes = 8;
  if (barrier % barrier_bytes != 0)
    throw Violation("prepares " + barrier_name(barrier) + ", which is no multiple of 8");
  if (!barriers_.insert({barrier, {now, bytes, 0, {}}}).second)
    throw Violation("prepares " + barrier_name(barrier) + " a second time");
}

BulkCopies::Barrier& BulkCopies::known(const Moment& now, std::uint32_t barrier, const char* what) {
  const auto found = barriers_.find(barrier);
  if (found == barriers_.end())
    throw Violation(std::string(what) + barrier_name(barrier) + ", which nobody prepared");
  if (!happened_before(found->second.begun, now)) {
    throw Violation(std::string(what) + barrier_name(barrier) +
                    ", with no synchronisation behind who prepared it");
  }
  return found->second;
}

void BulkCopies::issue(std::uint32_t barrier, const Copy& copy) {
  Barrier& target = known(copy.issued, barrier, "copies for ");
  target.issued += copy.bytes;
  target.in_flight.push_back(copy);
}

void BulkCopies::wait(const Moment& now, std::uint32_t barrier,
                      const std::function<void(const Copy&)>& finish) {
  Barrier& target = known(now, barrier, "waits for ");
  if (target.issued != target.expected) {
    throw Violation("waits for " + barrier_name(barrier) + ", which expects " +
                    std::to_string(target.expected) + " bytes where copies bring " +
                    std::to_string(target.issued));
  }
  for (const Copy& copy : target.in_flight) finish(copy);
  target.in_flight.clear();
}

}  // namespace spider::emulator
