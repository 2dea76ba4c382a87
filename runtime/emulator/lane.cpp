#include "lane.h"

#include <cstring>

#include "text.h"

namespace spider::emulator {

namespace {

const char* name(Arrival::Kind kind) {
  switch (kind) {
    case Arrival::Kind::sync_warp:
      return "sync_warp";
    case Arrival::Kind::sync_block:
      return "sync_block";
    case Arrival::Kind::transpose_8x8:
      return "transpose_8x8";
    case Arrival::Kind::warp_max:
      return "warp_max";
    case Arrival::Kind::shuffle:
      return "shuffle";
    case Arrival::Kind::multiply_sparse:
      return "multiply_sparse";
    case Arrival::Kind::multiply_dense:
      return "multiply_dense";
  }
  return "";
}

bool same_site(const CallSite& a, const CallSite& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

}  // namespace

bool Arrival::same_call(const Arrival& other) const {
  return kind == other.kind && selector == other.selector && operands == other.operands &&
         same_site(site, other.site);
}

std::string to_string(const Arrival& arrival) {
  std::string text = name(arrival.kind);
  if (arrival.kind == Arrival::Kind::multiply_sparse) text += '<' + std::to_string(arrival.selector) + '>';
  return text + " at " + to_string(arrival.site);
}

void CopyQueue::clear() {
  copies_.clear();
  retired_ = 0;
  open_group_ = 0;
}

void CopyQueue::wait(std::uint64_t pending, const std::function<void(const Copy&)>& finish) {
  if (pending >= open_group_) return;
  const std::uint64_t kept_group = open_group_ - pending;
  while (retired_ < copies_.size() && copies_[retired_].group < kept_group) finish(copies_[retired_++]);
  constexpr std::size_t worth_moving = 64;
  if (retired_ >= worth_moving) {
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(retired_));
    retired_ = 0;
  }
}

}  // namespace spider::emulator
