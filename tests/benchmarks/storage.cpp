#include "storage.h"

#include <spider/spider.h>

#include <bit>
#include <spider/half.hpp>
#include <stdexcept>

namespace bench {
namespace {

/// Properties of a type, one row each.
struct StorageType {
  int storage;
  const char* name;
  std::int64_t bytes;
  int bits;
  double largest_below_one;
};

constexpr StorageType types[] = {
    {SPIDER_F16, "f16", 2, 11, 1.0 - 0x1p-11},
    {SPIDER_F32, "f32", 4, 24, 1.0 - 0x1p-24},
    {SPIDER_BF16, "bf16", 2, 8, 1.0 - 0x1p-8},
    {SPIDER_F64, "f64", 8, 53, 1.0 - 0x1p-53},
};

const StorageType& type_of(int storage) {
  for (const StorageType& type : types) {
    if (type.storage == storage) return type;
  }
  throw std::invalid_argument("storage " + std::to_string(storage) + " is not known to spider-bench");
}

std::uint32_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;  // ties to even; a carry raises the exponent
}

}  // namespace

std::int64_t element_bytes(int storage) {
  return type_of(storage).bytes;
}

std::string storage_name(int storage) {
  return type_of(storage).name;
}

int significant_bits(int storage) {
  return type_of(storage).bits;
}

double largest_below_one(int storage) {
  return type_of(storage).largest_below_one;
}

double cell_value(int storage, std::uint64_t seed, std::int64_t index) {
  const auto cell = static_cast<std::uint64_t>(index);
  if (storage == SPIDER_F64) return random_double(seed, cell);
  const auto limit = static_cast<float>(largest_below_one(storage));
  return round_to_storage(storage, static_cast<double>(random_value(seed, cell, limit)));
}

double round_to_storage(int storage, double value) {
  return decode(storage, encode(storage, value));
}

double decode(int storage, std::uint64_t bits) {
  switch (type_of(storage).storage) {
    case SPIDER_F16:
      return static_cast<double>(
          static_cast<float>(spider::half::from_bits(static_cast<std::uint16_t>(bits))));
    case SPIDER_BF16:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
    case SPIDER_F64:
      return std::bit_cast<double>(bits);
    default:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
}

std::uint64_t encode(int storage, double value) {
  switch (type_of(storage).storage) {
    case SPIDER_F16:
      return spider::half(value).bits();
    case SPIDER_BF16:
      return round_to_bf16(static_cast<float>(value));
    case SPIDER_F64:
      return std::bit_cast<std::uint64_t>(value);
    default:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
}

}  // namespace bench
