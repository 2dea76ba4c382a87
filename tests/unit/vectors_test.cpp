#include <spider/instructions_emulated.h>
#include <spider/values/vectors.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace spider {
namespace {

TEST(TakeVector, TakesAnySixteenBytesOfTwoVectors) {
  std::array<std::uint8_t, 32> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i + 1);
  std::array<device::Vector, 2> vectors{};
  std::memcpy(vectors.data(), bytes.data(), bytes.size());
  for (int begin = 0; begin < 16; begin += 2) {
    const device::Vector taken = take_vector(vectors[0], vectors[1], begin);
    EXPECT_EQ(std::memcmp(taken.word, bytes.data() + begin, sizeof taken.word), 0) << begin;
  }
}

}  // namespace
}  // namespace spider
