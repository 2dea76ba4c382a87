/// Which fields the sweeps of many steps read and write in turn.
#pragma once

#include <spider/spider.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "fields.h"

namespace spider {

/// The fields of successive sweeps. After each one the output becomes the input, the input the previous
/// field, and that the output. Without a previous field, or if the output is its memory, two fields take
/// turns; sweeps that also write the step before alternate between two pairs. A `Sweep` has the fields of
/// spider_sweep of these names.
template <class Sweep>
[[nodiscard]] std::vector<Sweep> rotate(const Sweep& first) {
  std::vector<Sweep> turns{first};
  if (first.out_previous != nullptr) {
    Sweep back = first;
    std::swap(back.in, back.out);
    std::swap(back.previous, back.out_previous);
    turns.push_back(back);
    return turns;
  }
  const bool in_place = first.previous != nullptr && is_in_place(*first.out, *first.previous);
  const std::size_t count = first.previous == nullptr || in_place ? 2 : 3;
  while (turns.size() < count) {
    Sweep next = turns.back();
    const Sweep& last = turns.back();
    next.in = last.out;
    next.out = count == 2 ? last.in : last.previous;
    if (first.previous != nullptr) next.previous = last.in;
    turns.push_back(next);
  }
  return turns;
}

/// The same for the single steps after sweeps of pairs: from the begin of a turn, each in the place of its
/// previous field.
template <class Sweep>
[[nodiscard]] std::vector<Sweep> rotate_in_place(const Sweep& turn) {
  Sweep first = turn;
  first.out = turn.previous;
  first.out_previous = nullptr;
  return rotate(first);
}

}  // namespace spider
