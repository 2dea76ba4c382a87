#include "reductions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "fields.h"
#include "report.h"

namespace spider {
namespace {

using backend::Outcome;

constexpr double infinity = std::numeric_limits<double>::infinity();
__extension__ using Wide = unsigned __int128;
constexpr std::int64_t limb_size = std::int64_t{1} << reduction_limb_bits;

std::uint64_t bytes_of_accumulators(const spider_kernel& kernel) {
  return static_cast<std::uint64_t>(kernel.info.reduction_count) * reduction_copies * reduction_words *
         sizeof(std::int64_t);
}

/// The inverse of key_of (spider/values/exact_sum.h).
double value_of_key(std::uint64_t key, bool reversed) {
  if (key == 0) return reversed ? infinity : -infinity;
  if (key == ~std::uint64_t{0}) return std::numeric_limits<double>::quiet_NaN();
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  if (reversed) key = ~key;
  const std::uint64_t bits = (key & sign) != 0 ? key & ~sign : ~key;
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Carries between limbs until each has its own digits, and the last one the sign.
void carry(std::array<std::int64_t, reduction_limbs + 2>& limbs) {
  for (std::size_t i = 0; i + 1 < limbs.size(); ++i) {
    const std::int64_t carried = limbs[i] >> reduction_limb_bits;  // towards minus infinity
    limbs[i] -= carried * limb_size;
    limbs[i + 1] += carried;
  }
}

/// Digits of at least 0, in units of 2^-1074, rounded to nearest, ties to even.
double rounded(const std::array<std::int64_t, reduction_limbs + 2>& limbs) {
  std::size_t top = limbs.size();
  while (top > 0 && limbs[top - 1] == 0) --top;
  if (top == 0) return 0;
  // At least 54 digits, if there are as many; of those behind them whether any is not 0.
  Wide digits = 0;
  std::size_t next = top;
  while (next > 0 && digits >> 54 == 0)
    digits = digits << reduction_limb_bits | static_cast<std::uint64_t>(limbs[--next]);
  const bool sticky = std::any_of(limbs.begin(), limbs.begin() + static_cast<std::ptrdiff_t>(next),
                                  [](std::int64_t limb) { return limb != 0; });
  const int shift = static_cast<int>(next) * reduction_limb_bits;
  int excess = 0;
  while (digits >> excess >> 53 != 0) ++excess;
  if (excess == 0) return std::ldexp(static_cast<double>(static_cast<std::uint64_t>(digits)), shift - 1074);
  const Wide left = digits & ((Wide{1} << excess) - 1);
  const Wide half = Wide{1} << (excess - 1);
  auto kept = static_cast<std::uint64_t>(digits >> excess);
  if (left > half || (left == half && (sticky || kept % 2 == 1))) ++kept;
  return std::ldexp(static_cast<double>(kept), shift + excess - 1074);
}

double sum_of(const std::int64_t* accumulators, std::int32_t copies) {
  std::array<std::int64_t, reduction_limbs + 2> limbs{};
  std::int64_t marks[3] = {};  // NaNs, infinities and negative ones
  for (std::int32_t copy = 0; copy < copies; ++copy) {
    const std::int64_t* own = accumulators + static_cast<std::ptrdiff_t>(copy) * reduction_words;
    for (int i = 0; i < reduction_limbs; ++i) limbs[static_cast<std::size_t>(i)] += own[i];
    for (int i = 0; i < 3; ++i) marks[i] += own[reduction_nan + i];
    carry(limbs);
  }
  if (marks[0] != 0 || (marks[1] != 0 && marks[2] != 0)) return std::numeric_limits<double>::quiet_NaN();
  if (marks[1] != 0) return infinity;
  if (marks[2] != 0) return -infinity;
  if (limbs.back() >= 0) return rounded(limbs);
  for (std::int64_t& limb : limbs) limb = -limb;
  carry(limbs);
  return -rounded(limbs);
}

Outcome create(const spider_kernel* kernel, spider_reductions** reductions) {
  if (reductions == nullptr) return {SPIDER_ERROR_NULL, "the place for the reductions is null"};
  *reductions = nullptr;
  if (Outcome known = check_kernel(kernel); known.status != SPIDER_OK) return known;
  if (kernel->info.reduction_count == 0) {
    return {SPIDER_ERROR_UNSUPPORTED,
            "the kernel " + std::string(kernel->info.name) + " has no reductions: its spec has no `reduce`"};
  }
  auto created = std::make_unique<spider_reductions>();
  created->kernel = kernel;
  void* memory = nullptr;
  const std::uint64_t bytes = bytes_of_accumulators(*kernel);
  if (Outcome allocated = backend::allocate(bytes, &memory); allocated.status != SPIDER_OK) return allocated;
  created->accumulators.reset(memory);
  if (Outcome cleared = backend::clear(memory, bytes); cleared.status != SPIDER_OK) return cleared;
  *reductions = created.release();
  return {};
}

}  // namespace

Outcome take_points(const spider_kernel& kernel, spider_reductions& reductions, std::int64_t points) {
  if (reductions.kernel != &kernel) {
    return {SPIDER_ERROR_KERNEL, "the reductions were created for the kernel " +
                                     std::string(reductions.kernel->info.name) + ", not for " +
                                     kernel.info.name};
  }
  if (points > most_additions - reductions.points) {
    return {SPIDER_ERROR_EXTENT, "reductions take " + std::to_string(most_additions) +
                                     " points between two reads; spider_reductions_read begins anew"};
  }
  reductions.points += points;
  return {};
}

std::vector<ReductionKind> reduction_kinds(const spider_kernel& kernel) {
  std::vector<ReductionKind> kinds(static_cast<std::size_t>(kernel.info.reduction_count));
  for (std::int32_t launch = 0; launch < kernel.form_count; ++launch) {
    const SystemSweep& sweep = kernel.system->sweeps[launch];
    for (std::int32_t i = 0; i < sweep.reduced_count; ++i)
      kinds[static_cast<std::size_t>(sweep.reduced[i].which)] = sweep.reduced[i].kind;
  }
  return kinds;
}

Outcome fetch_accumulators(spider_reductions& reductions, void* stream, std::vector<std::int64_t>& words) {
  const std::uint64_t bytes = bytes_of_accumulators(*reductions.kernel);
  words.resize(bytes / sizeof(std::int64_t));
  if (Outcome done = backend::synchronize(stream); done.status != SPIDER_OK) return done;
  if (Outcome fetched =
          backend::download(words.data(), bytes, reductions.accumulators.get(), bytes, bytes, 1);
      fetched.status != SPIDER_OK)
    return fetched;
  reductions.points = 0;
  return backend::clear(reductions.accumulators.get(), bytes);
}

double number_of(ReductionKind kind, const std::int64_t* accumulators, std::int32_t copies) {
  if (kind == ReductionKind::sum) return sum_of(accumulators, copies);
  std::uint64_t key = 0;
  for (std::int32_t copy = 0; copy < copies; ++copy)
    key = std::max(
        key, static_cast<std::uint64_t>(accumulators[static_cast<std::ptrdiff_t>(copy) * reduction_words]));
  return value_of_key(key, kind == ReductionKind::min);
}

Outcome read_reductions(spider_reductions& reductions, double* values, void* stream) {
  std::vector<std::int64_t> words;
  if (Outcome fetched = fetch_accumulators(reductions, stream, words); fetched.status != SPIDER_OK)
    return fetched;
  const std::vector<ReductionKind> kinds = reduction_kinds(*reductions.kernel);
  constexpr std::size_t words_of_one = std::size_t{reduction_copies} * reduction_words;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    values[i] = number_of(kinds[i], words.data() + i * words_of_one, reduction_copies);
  return {};
}

}  // namespace spider

spider_status spider_reductions_create(const spider_kernel* kernel, spider_reductions** reductions) {
  return spider::guarded("spider_reductions_create", [&] { return spider::create(kernel, reductions); });
}

spider_status spider_reductions_free(spider_reductions* reductions) {
  return spider::guarded("spider_reductions_free", [&]() -> spider::backend::Outcome {
    const std::unique_ptr<spider_reductions> owned(reductions);
    if (reductions == nullptr) return {};
    return spider::backend::release(reductions->accumulators.release());
  });
}

spider_status spider_reductions_read(spider_reductions* reductions, double* values, void* stream) {
  return spider::guarded("spider_reductions_read", [&]() -> spider::backend::Outcome {
    if (reductions == nullptr || values == nullptr)
      return {SPIDER_ERROR_NULL,
              reductions == nullptr ? "the reductions are null" : "the place for the numbers is null"};
    return spider::read_reductions(*reductions, values, stream);
  });
}
