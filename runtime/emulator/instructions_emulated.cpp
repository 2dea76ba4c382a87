#include <spider/instructions_emulated.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "block.h"
#include "half.h"
#include "violation.h"

namespace spider {

namespace {

using emulator::Arrival;
using emulator::Lane;

Lane& this_lane() {
  Lane* const lane = emulator::current_lane();
  if (lane == nullptr) throw std::logic_error("an instruction of the emulated device outside of a kernel");
  return *lane;
}

void arrive(const Arrival& arrival) {
  Lane& lane = this_lane();
  lane.block.arrive(lane, arrival);
}

/// A collective that exchanges a word.
std::uint32_t exchange(Arrival::Kind kind, std::uint32_t word, const emulator::CallSite& site) {
  Arrival arrival;
  arrival.kind = kind;
  arrival.site = site;
  arrival.word = &word;
  arrive(arrival);
  return word;
}

/// A product with an uncompressed A.
void multiply_whole(device::Accumulator& sum, const device::Vector& a, const device::Pair& b,
                    emulator::OperandType operands, const emulator::CallSite& site) {
  Arrival arrival;
  arrival.kind = Arrival::Kind::multiply_dense;
  arrival.site = site;
  arrival.sum = &sum;
  arrival.a = &a;
  arrival.b_pair = &b;
  arrival.operands = operands;
  arrive(arrival);
}

template <class Value>
Value load_aligned(const Value* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(Value) != 0) {
    throw emulator::Violation("reads " + std::to_string(sizeof(Value)) +
                              " bytes of a table at an address that is no multiple of them");
  }
  return *from;
}

/// Called when a lane is about to touch a field.
emulator::FieldAccess& fields_for(const Lane& lane) {
  if (!lane.waited && lane.block.starts_early()) {
    throw emulator::Violation("touches a field before it waits for earlier work");
  }
  return lane.block.fields();
}

/// Neighbouring cells of the field, as many as fit the value.
template <class Value>
Value load_cells(const void* from) {
  const emulator::FieldAccess& fields = fields_for(this_lane());
  fields.check_input(from, static_cast<int>(sizeof(Value)) / fields.element_bytes(), "reads");
  Value value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The same for a further field.
template <class Value>
Value load_further(const void* from) {
  fields_for(this_lane()).check_further(from, static_cast<int>(sizeof(Value)));
  Value value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

void issue_copy(Lane& lane, device::Shared to, const void* from, std::uint32_t bytes) {
  lane.block.shared().start_copy(lane.block.moment(lane), to, bytes);
  lane.copies.issue(to, from, bytes);
}

void start_copy(device::Shared to, const void* from, std::uint32_t bytes) {
  Lane& lane = this_lane();
  const emulator::FieldAccess& fields = fields_for(lane);
  fields.check_input(from, static_cast<int>(bytes) / fields.element_bytes(), "copies");
  issue_copy(lane, to, from, bytes);
}

/// The same for a further field.
void start_further_copy(device::Shared to, const void* from, std::uint32_t bytes) {
  Lane& lane = this_lane();
  fields_for(lane).check_further(from, static_cast<int>(bytes));
  issue_copy(lane, to, from, bytes);
}

/// The same for a system's field.
template <class Value>
Value load_of_system(const void* from) {
  this_lane().block.system()->check_read(from, static_cast<int>(sizeof(Value)));
  Value value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Value>
void store_cells(void* to, const Value& value) {
  if (emulator::SystemAccess* const system = this_lane().block.system()) {
    system->note_write(to, static_cast<int>(sizeof(Value)));
  } else {
    emulator::FieldAccess& fields = fields_for(this_lane());
    fields.note_output(to, static_cast<int>(sizeof(Value)) / fields.output_bytes());
  }
  std::memcpy(to, &value, sizeof value);
}

}  // namespace

inline namespace device_4 {
namespace device {

int lane_index() {
  return this_lane().index;
}
int warp_index() {
  return this_lane().warp;
}
int block_index() {
  return static_cast<int>(this_lane().block.number());
}
int image_index() {
  return this_lane().block.image();
}

void sync_warp(emulator::CallSite site) {
  Arrival arrival;
  arrival.kind = Arrival::Kind::sync_warp;
  arrival.site = site;
  arrive(arrival);
}

void sync_block(emulator::CallSite site) {
  Arrival arrival;
  arrival.kind = Arrival::Kind::sync_block;
  arrival.site = site;
  arrive(arrival);
}

std::uint32_t warp_max(std::uint32_t value, emulator::CallSite site) {
  return exchange(Arrival::Kind::warp_max, value, site);
}

std::uint32_t smallest_in_warp(std::uint32_t value, emulator::CallSite site) {
  return ~exchange(Arrival::Kind::warp_max, ~value, site);
}

std::uint32_t shuffle(std::uint32_t value, int source, emulator::CallSite site) {
  Arrival arrival;
  arrival.kind = Arrival::Kind::shuffle;
  arrival.site = site;
  arrival.word = &value;
  arrival.source = source;
  arrive(arrival);
  return value;
}

std::uint64_t shuffle(std::uint64_t value, int source, emulator::CallSite site) {
  const std::uint32_t low = shuffle(static_cast<std::uint32_t>(value), source, site);
  const std::uint32_t high = shuffle(static_cast<std::uint32_t>(value >> 32), source, site);
  return std::uint64_t{high} << 32 | low;
}

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

double double_of(std::uint64_t bits) {
  return std::bit_cast<double>(bits);
}

float multiply_add(float a, float b, float c) {
  return std::fma(a, b, c);
}

float add(float a, float b) {
  return a + b;
}
float subtract(float a, float b) {
  return a - b;
}
float multiply(float a, float b) {
  return a * b;
}
float divide(float a, float b) {
  return a / b;
}
float square_root(float a) {
  return std::sqrt(a);
}
float square_root_of_normal(float a) {
  return std::sqrt(std::fabs(a) < 0x1p-126F ? 0 * a : a);
}
float larger(float a, float b) {
  if (a == b) return std::signbit(a) ? b : a;
  return std::fmax(a, b);
}
float smaller(float a, float b) {
  if (a == b) return std::signbit(a) ? a : b;
  return std::fmin(a, b);
}

double multiply_add(double a, double b, double c) {
  return std::fma(a, b, c);
}

double add(double a, double b) {
  return a + b;
}
double subtract(double a, double b) {
  return a - b;
}
double multiply(double a, double b) {
  return a * b;
}
double divide(double a, double b) {
  return a / b;
}
double square_root(double a) {
  return std::sqrt(a);
}
double larger(double a, double b) {
  if (a == b) return std::signbit(a) ? b : a;
  return std::fmax(a, b);
}
double smaller(double a, double b) {
  if (a == b) return std::signbit(a) ? a : b;
  return std::fmin(a, b);
}

float larger_magnitude(float a, float b) {
  return std::fmax(std::fabs(a), std::fabs(b));
}

float smaller_magnitude(float a, float b) {
  return std::fmin(std::fabs(a), std::fabs(b));
}

Vector load_table(const Vector* from) {
  return load_aligned(from);
}
std::uint32_t load_table(const std::uint32_t* from) {
  return load_aligned(from);
}

void wait_on_dependency() {
  this_lane().waited = true;
}

Vector load_shared(Shared from) {
  const Lane& lane = this_lane();
  return lane.block.shared().load(lane.block.moment(lane), from);
}

void store_shared(Shared to, const Vector& v) {
  const Lane& lane = this_lane();
  lane.block.shared().store(lane.block.moment(lane), to, v);
}

Pair load_shared_pair(Shared from) {
  const Lane& lane = this_lane();
  return lane.block.shared().load_pair(lane.block.moment(lane), from);
}

std::uint32_t load_shared_word(Shared from) {
  const Lane& lane = this_lane();
  return lane.block.shared().load_word(lane.block.moment(lane), from);
}

std::uint16_t load_shared_half(Shared from) {
  const Lane& lane = this_lane();
  return lane.block.shared().load_half(lane.block.moment(lane), from);
}

void store_shared(Shared to, const Pair& v) {
  const Lane& lane = this_lane();
  lane.block.shared().store(lane.block.moment(lane), to, v);
}

void store_shared(Shared to, std::uint32_t v) {
  const Lane& lane = this_lane();
  lane.block.shared().store(lane.block.moment(lane), to, v);
}

void store_shared(Shared to, std::uint64_t v) {
  store_shared(to, std::bit_cast<Pair>(v));
}

void store_shared(Shared to, std::uint8_t v) {
  const Lane& lane = this_lane();
  lane.block.shared().store(lane.block.moment(lane), to, v);
}

void store_shared(Shared to, std::uint16_t v) {
  const Lane& lane = this_lane();
  lane.block.shared().store(lane.block.moment(lane), to, v);
}

void copy_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) start_copy(to, from, sizeof(Vector));
}

void copy_word_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) start_copy(to, from, sizeof(std::uint32_t));
}

void copy_pair_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) start_copy(to, from, sizeof(Pair));
}

void copy_point_vector_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) start_further_copy(to, from, sizeof(Vector));
}

void copy_point_pair_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) start_further_copy(to, from, sizeof(Pair));
}

void copy_point_word_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) start_further_copy(to, from, sizeof(std::uint32_t));
}

void copy_async_commit() {
  this_lane().copies.commit();
}

void begin_bulk_copies(Shared barrier, std::uint32_t bytes, emulator::CallSite site) {
  sync_warp(site);
  if (lane_index() != 0) return;
  const Lane& lane = this_lane();
  const emulator::Moment now = lane.block.moment(lane);
  lane.block.bulk_copies().begin(now, barrier, bytes);
  lane.block.shared().store(now, barrier, bytes);
  lane.block.shared().store(now, barrier + sizeof bytes, bytes);
}

void copy_bulk_async(Shared to, const void* from, std::uint32_t bytes, Shared barrier) {
  constexpr std::uint32_t unit = sizeof(Vector);
  const Lane& lane = this_lane();
  const emulator::FieldAccess& fields = fields_for(lane);
  const emulator::Moment now = lane.block.moment(lane);
  if (bytes == 0 || bytes % unit != 0)
    throw emulator::Violation("copies " + std::to_string(bytes) + " bytes, which are no multiple of 16");
  for (std::uint32_t done = 0; done < bytes; done += unit) {
    const void* part = static_cast<const unsigned char*>(from) + done;
    fields.check_input(part, static_cast<int>(unit) / fields.element_bytes(), "copies");
    lane.block.shared().start_copy(now, to + done, unit);
  }
  lane.block.bulk_copies().issue(barrier, {now, to, from, bytes});
}

void wait_for_bulk_copies(Shared barrier) {
  const Lane& lane = this_lane();
  lane.block.bulk_copies().wait(
      lane.block.moment(lane), barrier, [&](const emulator::BulkCopies::Copy& copy) {
        lane.block.shared().finish_copy(copy.issued, copy.to, copy.from, copy.bytes);
      });
}

std::uint32_t load_field_word(const void* from) {
  return load_cells<std::uint32_t>(from);
}
Pair load_field_pair(const void* from) {
  return load_cells<Pair>(from);
}
Vector load_field_vector(const void* from) {
  return load_cells<Vector>(from);
}

std::uint16_t load_point(const std::uint16_t* from) {
  return load_further<std::uint16_t>(from);
}
std::uint32_t load_point(const std::uint32_t* from) {
  return load_further<std::uint32_t>(from);
}
std::uint64_t load_point(const std::uint64_t* from) {
  return load_further<std::uint64_t>(from);
}
std::uint32_t load_point_word(const void* from) {
  return load_further<std::uint32_t>(from);
}
Pair load_point_pair(const void* from) {
  return load_further<Pair>(from);
}
Vector load_point_vector(const void* from) {
  return load_further<Vector>(from);
}

void store_field_word(void* to, std::uint32_t v) {
  store_cells(to, v);
}
void store_field_pair(void* to, const Pair& v) {
  store_cells(to, v);
}
void store_field_vector(void* to, const Vector& v) {
  store_cells(to, v);
}

std::uint16_t load_cell(const std::uint16_t* from) {
  return load_of_system<std::uint16_t>(from);
}
std::uint32_t load_cell(const std::uint32_t* from) {
  return load_of_system<std::uint32_t>(from);
}
std::uint64_t load_cell(const std::uint64_t* from) {
  return load_of_system<std::uint64_t>(from);
}
void load_cell_pair(const void* from, std::uint32_t* words) {
  const Pair v = load_of_system<Pair>(from);
  std::copy_n(v.word, 2, words);
}
void load_cell_vector(const void* from, std::uint32_t* words) {
  const Vector v = load_of_system<Vector>(from);
  std::copy_n(v.word, 4, words);
}

std::uint8_t load_field(const std::uint8_t* from) {
  fields_for(this_lane()).check_input(from, 1, "reads");
  return *from;
}

void store_field(std::uint8_t* to, std::uint8_t v) {
  store_cells(to, v);
}

std::uint16_t load_field(const std::uint16_t* from) {
  fields_for(this_lane()).check_input(from, 1, "reads");
  return *from;
}

Vector load_vector(const std::uint16_t* from) {
  constexpr int cells = sizeof(Vector) / sizeof(std::uint16_t);
  fields_for(this_lane()).check_input(from, cells, "reads");
  Vector vector{};
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

void store_field(std::uint16_t* to, std::uint16_t v) {
  store_cells(to, v);
}

void store_field(std::uint16_t* to, std::uint32_t low, std::uint32_t high) {
  store_cells(to, std::array{low, high});
}

std::uint32_t load_field(const std::uint32_t* from) {
  fields_for(this_lane()).check_input(from, 1, "reads");
  return *from;
}

void store_field(std::uint32_t* to, std::uint32_t v) {
  store_cells(to, v);
}

void store_field(std::uint32_t* to, std::uint32_t low, std::uint32_t high) {
  store_cells(to, std::array{low, high});
}

std::uint64_t load_field(const std::uint64_t* from) {
  fields_for(this_lane()).check_input(from, 1, "reads");
  return *from;
}

void store_field(std::uint64_t* to, std::uint64_t v) {
  store_cells(to, v);
}

std::uint32_t pack_f16(float low, float high) {
  return emulator::float_to_half(low) | static_cast<std::uint32_t>(emulator::float_to_half(high)) << 16;
}

std::uint32_t pack_bf16(float low, float high) {
  return emulator::float_to_bfloat(low) | static_cast<std::uint32_t>(emulator::float_to_bfloat(high)) << 16;
}

float low_f16(std::uint32_t both) {
  return emulator::half_to_float(static_cast<std::uint16_t>(both));
}

float high_f16(std::uint32_t both) {
  return emulator::half_to_float(static_cast<std::uint16_t>(both >> 16));
}

std::uint32_t transpose_8x8(std::uint32_t row_pair, emulator::CallSite site) {
  return exchange(Arrival::Kind::transpose_8x8, row_pair, site);
}

Vector load_matrices(Shared row, emulator::CallSite site) {
  const int lane = lane_index();
  Vector words{};
  for (int i = 0; i < 4; ++i) {
    const Shared from = shuffle(row, 8 * i + lane / 4, site);
    if (from % sizeof(Vector) != 0) throw emulator::Violation("rows of a matrix begin on 16 bytes");
    words.word[i] = load_shared_word(from + static_cast<Shared>(lane % 4 * 4));
  }
  return words;
}
Vector load_matrices_transposed(Shared row, emulator::CallSite site) {
  Vector words = load_matrices(row, site);
  for (std::uint32_t& word : words.word) word = transpose_8x8(word, site);
  return words;
}

void multiply_dense(Accumulator& sum, const Vector& a, const Pair& b, emulator::CallSite site) {
  multiply_whole(sum, a, b, emulator::OperandType::f16, site);
}

void multiply_dense_bf16(Accumulator& sum, const Vector& a, const Pair& b, emulator::CallSite site) {
  multiply_whole(sum, a, b, emulator::OperandType::bf16, site);
}

void add_to(std::int64_t* word, std::int64_t value) {
  std::atomic_ref<std::int64_t>(*word).fetch_add(value, std::memory_order_relaxed);
}
void raise(std::uint64_t* word, std::uint64_t value) {
  const std::atomic_ref<std::uint64_t> shared(*word);
  std::uint64_t known = shared.load(std::memory_order_relaxed);
  while (known < value && !shared.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
  }
}

void count_stored(std::uint32_t* counter) {
  std::atomic_ref<std::uint32_t>(*counter).fetch_add(1, std::memory_order_release);
}

}  // namespace device
}  // namespace device_4

namespace emulator {

void copy_async_wait(int pending) {
  Lane& lane = this_lane();
  const Moment now = lane.block.moment(lane);
  lane.copies.wait(static_cast<std::uint64_t>(pending), [&](const CopyQueue::Copy& copy) {
    lane.block.shared().finish_copy(now, copy.to, copy.from, copy.bytes);
  });
}

namespace {

void multiply(device::Accumulator& sum, const device::Vector& a, const device::Vector& b,
              std::uint32_t metadata, OperandType operands, int selector, const CallSite& site) {
  Arrival arrival;
  arrival.kind = Arrival::Kind::multiply_sparse;
  arrival.selector = selector;
  arrival.site = site;
  arrival.sum = &sum;
  arrival.a = &a;
  arrival.b = &b;
  arrival.metadata = metadata;
  arrival.operands = operands;
  arrive(arrival);
}

}  // namespace

void multiply_sparse(device::Accumulator& sum, const device::Vector& a, const device::Vector& b,
                     std::uint32_t metadata, int selector, CallSite site) {
  multiply(sum, a, b, metadata, OperandType::f16, selector, site);
}

void multiply_sparse_bf16(device::Accumulator& sum, const device::Vector& a, const device::Vector& b,
                          std::uint32_t metadata, int selector, CallSite site) {
  multiply(sum, a, b, metadata, OperandType::bf16, selector, site);
}

}  // namespace emulator

}  // namespace spider
