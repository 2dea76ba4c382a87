#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "diag/diagnostic.h"
#include "pack/compress.h"
#include "pack/pack.h"
#include "pack/prove.h"
#include "plan/half.h"
#include "plan/make_plan.h"
#include "random_stencil.h"

namespace spidergen::pack {
namespace {

using plan::Matrix;
using plan::TileMapping;

std::vector<double> random_weights(std::mt19937& random, int count) {
  std::vector<double> weights;
  for (int i = 0; i < count; ++i) {
    weights.push_back(plan::round_to_f16(std::uniform_real_distribution<>(-1, 1)(random)));
  }
  return weights;
}

/// weight by dx of output `m`, read back from a matrix.
std::map<int, double> taps_of(const Matrix& matrix, const TileMapping& mapping, int m) {
  std::map<int, double> taps;
  for (int k = 0; k < matrix.columns; ++k) {
    if (matrix.at(m, k) != 0) taps[mapping.column_input[k].x - mapping.row_output[m].x] += matrix.at(m, k);
  }
  return taps;
}

/// Weights A..G of the paper's figure as 1..7.
const std::vector<double> paper_weights{1, 2, 3, 4, 5, 6, 7};
constexpr double E = 5;
constexpr double G = 7;

TEST(ElementSwap, ReproducesThePapersWorkedExample) {
  const TileMapping mapping = plan::element_swap_mapping(3);
  ASSERT_EQ(mapping.rows(), 8);
  ASSERT_EQ(mapping.columns(), 16);
  const Matrix matrix = plan::kernel_matrix(mapping, paper_weights);
  const Selection selection = select_columns(mapping);
  const Matrix compressed = compress(matrix, selection);

  // Row 0, columns 4..7: `E 0 G 0` becomes `E G` with indices 00 10.
  EXPECT_EQ((std::vector<double>{matrix.at(0, 4), matrix.at(0, 5), matrix.at(0, 6), matrix.at(0, 7)}),
            (std::vector<double>{E, 0, G, 0}));
  EXPECT_EQ(compressed.at(0, 2), E);
  EXPECT_EQ(compressed.at(0, 3), G);
  EXPECT_EQ(selection.at(0, 1), (Selection::Pair{0, 2}));
  EXPECT_EQ(metadata_nibble(selection.at(0, 1)), 0x8U);

  // Row 3, columns 0..3: `0 G 0 0` becomes `G 0` with indices 01 10.
  EXPECT_EQ((std::vector<double>{matrix.at(3, 0), matrix.at(3, 1), matrix.at(3, 2), matrix.at(3, 3)}),
            (std::vector<double>{0, G, 0, 0}));
  EXPECT_EQ(compressed.at(3, 0), G);
  EXPECT_EQ(compressed.at(3, 1), 0);
  EXPECT_EQ(selection.at(3, 0), (Selection::Pair{1, 2}));
  EXPECT_EQ(metadata_nibble(selection.at(3, 0)), 0x9U);
}

TEST(ElementSwap, IsTwoToFourForEveryRadius) {
  std::mt19937 random(1);
  for (int radius = 1; radius <= 63; ++radius) {
    const TileMapping mapping = plan::element_swap_mapping(radius);
    const std::vector<double> weights = random_weights(random, 2 * radius + 1);
    const Matrix matrix = plan::kernel_matrix(mapping, weights);
    const Selection selection = select_columns(mapping);
    EXPECT_EQ(expand(compress(matrix, selection), selection), matrix) << "radius " << radius;
    for (int m = 0; m < mapping.rows(); ++m) {
      for (const auto& [dx, weight] : taps_of(matrix, mapping, m)) EXPECT_EQ(weight, weights[dx + radius]);
    }
  }
}

TEST(PairSwap, MetadataFollowsTheClosedForm) {
  const TileMapping mapping = plan::pair_swap_mapping();
  const Selection selection = select_columns(mapping);
  for (int row = 0; row < 16; ++row) {
    const int m = mapping.row_output[row].x;
    for (int group = 0; group < 8; ++group) {
      const int k0 = 8 * (group % 2) + 2 * (group / 2);
      const unsigned expected = k0 >= m ? 0x4 : (k0 == m - 1 ? 0x9 : 0xE);
      EXPECT_EQ(metadata_nibble(selection.at(row, group)), expected) << "output " << m << ", group " << group;
    }
  }
}

TEST(PairSwap, SeventeenColumnsDoNotFit) {
  TileMapping mapping = plan::pair_swap_mapping();
  mapping.window_width = 17;
  EXPECT_THROW(static_cast<void>(select_columns(mapping)), diag::InternalError);
}

TEST(Swaps, GiveTheSameStencil) {
  constexpr std::uint32_t seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TileMapping pairs = plan::pair_swap_mapping();
  const TileMapping elements = plan::element_swap_mapping(7);  // L = 16 as well
  for (int round = 0; round < 20; ++round) {
    const std::vector<double> weights = random_weights(random, 15);
    std::vector<double> window(16, 0.0);
    std::copy(weights.begin(), weights.end(), window.begin() + 1);  // dx = -7..7 of -8..7
    const Matrix by_pairs = plan::kernel_matrix(pairs, window);
    const Matrix by_elements = plan::kernel_matrix(elements, weights);
    const PackedKernel packed =
        pack_matrices({{by_pairs, select_columns(pairs)}, {by_elements, select_columns(elements)}});
    for (int row = 0; row < 16; ++row) {
      const int output = pairs.row_output[row].x;
      EXPECT_EQ(taps_of(unpack(packed, 0), pairs, row), taps_of(unpack(packed, 1), elements, output));
    }
  }
}

TEST(Packing, TwoSelectionsShareARegister) {
  const TileMapping pairs = plan::pair_swap_mapping();
  const TileMapping elements = plan::element_swap_mapping(7);
  const Matrix a = plan::kernel_matrix(pairs, std::vector<double>(16, 1.0));
  const Matrix b = plan::kernel_matrix(elements, std::vector<double>(15, 2.0));
  const PackedKernel packed =
      pack_matrices({{a, select_columns(pairs)}, {b, select_columns(elements)}, {a, select_columns(pairs)}});
  ASSERT_EQ(packed.metadata.size(), 1U);
  EXPECT_EQ(packed.operands[0].selector, 0);
  EXPECT_EQ(packed.operands[1].selector, 1);
  EXPECT_EQ(packed.operands[2].selector, 0);
  EXPECT_EQ(unpack(packed, 0), a);
  EXPECT_EQ(unpack(packed, 1), b);
  EXPECT_EQ(unpack(packed, 2), a);
}

TEST(Packing, LaneOrderIsThatOfTheInstruction) {
  // P[(row + group) mod 6] through all legal codes; the words are worked out by hand from the PTX ISA's
  // figures.
  constexpr unsigned codes[] = {0x4, 0x8, 0xC, 0x9, 0xD, 0xE};
  Selection selection{16, 8, {}};
  for (int row = 0; row < 16; ++row) {
    for (int group = 0; group < 8; ++group)
      selection.pairs.push_back(pair_of_nibble(codes[(row + group) % 6]));
  }
  const MetadataFragment metadata = pack_metadata({selection});
  EXPECT_EQ(metadata[0], 0xED9C9C84U);
  EXPECT_EQ(metadata[1], 0x9C8484EDU);
  EXPECT_EQ(metadata[4], 0x4ED9D9C8U);
  EXPECT_EQ(metadata[5], 0xD9C8C84EU);
  EXPECT_EQ(metadata[12], 0xC84E4ED9U);
  EXPECT_EQ(metadata[29], 0xD9C8C84EU);

  Matrix compressed(16, 16);
  compressed.at(3, 0) = 1;
  compressed.at(3, 1) = 2;
  compressed.at(3, 9) = 4;
  compressed.at(3, 15) = 8;
  const OperandFragment fragment = to_fragment(compressed);
  EXPECT_EQ(fragment[12][0], 0x40003C00U);
  EXPECT_EQ(fragment[12][2], 0x44000000U);
  EXPECT_EQ(fragment[15][2], 0x48000000U);
}

TEST(Packing, InverseForRandomMatrices) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    for (const TileMapping& mapping : {plan::pair_swap_mapping(), plan::element_swap_mapping(7)}) {
      const Matrix matrix = plan::kernel_matrix(mapping, random_weights(random, mapping.window_width));
      EXPECT_EQ(unpack(pack_matrices({{matrix, select_columns(mapping)}}), 0), matrix) << "seed " << seed;
    }
  }
}

/// PTX ISA, m16n8k16: A(row, k) is in lane 4 (row mod 8) + (k mod 8) / 2, register row / 8 + 2 (k / 8), half
/// k mod 2.
TEST(Packing, LaneOrderOfWholeMatricesIsThatOfTheDenseInstruction) {
  Matrix matrix(16, 16);
  matrix.at(0, 0) = 1;
  matrix.at(3, 11) = 2;
  matrix.at(9, 4) = 4;
  matrix.at(15, 15) = 8;
  const PackedKernel packed = pack_whole_matrices({matrix});
  EXPECT_TRUE(packed.whole);
  EXPECT_TRUE(packed.metadata.empty());
  OperandFragment expected{};
  expected[0][0] = 0x00003C00U;
  expected[13][2] = 0x40000000U;
  expected[6][1] = 0x00004400U;
  expected[31][3] = 0x48000000U;
  EXPECT_EQ(packed.operands.front().values, expected);
}

TEST(Packing, InverseForRandomWholeMatrices) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    Matrix matrix(16, 16);
    matrix.values = random_weights(random, 256);
    EXPECT_EQ(unpack(pack_whole_matrices({matrix}), 0), matrix) << "seed " << seed;
  }
}

TEST(Packing, AnUnselectedNonZeroIsRefused) {
  const TileMapping mapping = plan::pair_swap_mapping();
  Matrix matrix(16, 32);
  matrix.at(0, 2) = 1;  // row 0 keeps positions 0 and 1 of its first group
  EXPECT_THROW(static_cast<void>(compress(matrix, select_columns(mapping))), diag::InternalError);
}

TEST(Proof, HoldsForRandomStencils) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    spec::StencilSpec stencil = testing::random_stencil(seed, 7, 31, seed % 2 == 0);
    stencil.storage = std::array{spec::Storage::f16, spec::Storage::f32, spec::Storage::bf16}[seed % 3];
    ASSERT_FALSE(plan::make_plan(stencil, {plan::Engine::sparse}).diagnostics.has_errors())
        << "seed " << seed;
    const plan::KernelPlan plan = plan::make_plan(stencil, {plan::Engine::sparse}).plan;
    EXPECT_NO_THROW(prove(stencil, plan, pack(plan))) << "seed " << seed;
  }
}

TEST(Proof, HoldsForRandomVolumes) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const spec::StencilSpec stencil =
        testing::random_volume(seed, static_cast<int>(seed % 9), 15, seed % 3 * 10);
    ASSERT_FALSE(plan::make_plan(stencil, {plan::Engine::sparse}).diagnostics.has_errors())
        << "seed " << seed;
    const plan::KernelPlan plan = plan::make_plan(stencil, {plan::Engine::sparse}).plan;
    EXPECT_NO_THROW(prove(stencil, plan, pack(plan))) << "seed " << seed;
  }
}

/// After movmatrix lane q of four has rows 2 q, 2 q + 1, 2 q + 8 and 2 q + 9 of a column.
TEST(RowPair, LanesStoreFourNeighboursOfOneRow) {
  const TileMapping mapping = plan::row_pair_mapping(plan::LaneOutputs::quad);
  for (int q = 0; q < 4; ++q) {
    for (int i = 0; i < 4; ++i) {
      const plan::Position expected{q / 2, 4 * (q % 2) + i};
      EXPECT_EQ(mapping.row_output[2 * q + i % 2 + 8 * (i / 2)], expected) << q << ' ' << i;
    }
  }
  EXPECT_EQ(mapping.column_input, plan::row_pair_mapping().column_input);
  static_cast<void>(select_columns(mapping));  // two of four
  TileMapping wider = mapping;
  wider.window_width = 9;
  EXPECT_THROW(static_cast<void>(select_columns(wider)), diag::InternalError);
}

TEST(Proof, HoldsForRandomPairsOfRows) {
  int paired = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    spec::StencilSpec stencil = testing::random_stencil(seed, static_cast<int>(seed % 7), 3, seed % 2 == 0);
    if (seed % 6 == 0) stencil.storage = spec::Storage::bf16;
    const plan::PlanResult planned = plan::make_plan(stencil, {plan::Engine::sparse});
    ASSERT_FALSE(planned.diagnostics.has_errors()) << "seed " << seed;
    if (!planned.plan.contraction.mapping.pairs_rows()) continue;  // windows are as few
    ++paired;
    EXPECT_NO_THROW(prove(stencil, planned.plan, pack(planned.plan))) << "seed " << seed;
  }
  EXPECT_GT(paired, 20);
}

TEST(Proof, FindsPairsOfRowsInTheWrongPlace) {
  const spec::StencilSpec stencil = testing::random_stencil(2, 3, 3, true);
  const plan::KernelPlan plan = plan::make_plan(stencil, {plan::Engine::sparse}).plan;
  ASSERT_TRUE(plan.contraction.mapping.pairs_rows());
  const PackedKernel packed = pack(plan);
  EXPECT_NO_THROW(prove(stencil, plan, packed));
  plan::KernelPlan moved = plan;
  moved.contraction.products.front().row += 1;
  EXPECT_THROW(prove(stencil, moved, packed), diag::InternalError);
  plan::KernelPlan transposed = plan;  // as if lanes stored pairs
  transposed.contraction.mapping = plan::row_pair_mapping();
  transposed.contraction.sources.front().mapping = plan::row_pair_mapping();
  EXPECT_THROW(prove(stencil, transposed, packed), diag::InternalError);
  plan::KernelPlan reversed = plan;  // the second row's inputs in the order of the first's
  for (plan::Position& input : reversed.contraction.sources.front().mapping.column_input) {
    if (input.y == 1) input.x = input.x < 4 ? (input.x + 8) % 8 - 4 : input.x % 8 + 4;
  }
  EXPECT_THROW(prove(stencil, reversed, packed), diag::InternalError);
}

/// Two sums for one update: a random stencil's taps, shared out at random, some for both.
spec::StencilSpec random_sums(std::uint32_t seed) {
  spec::StencilSpec stencil = testing::random_stencil(seed, static_cast<int>(seed % 5) + 1, 7, seed % 2 == 0);
  stencil.sums = {{"a", spec::Shape::taps}, {"b", spec::Shape::taps}};
  stencil.update.emplace();
  stencil.update->nodes = {{spec::UpdateOperation::sum, 0, 0, {}, {}},
                           {spec::UpdateOperation::sum, 0, 1, {}, {}},
                           {spec::UpdateOperation::multiply, 0, 0, {}, {0, 1}}};
  std::mt19937 random(seed);
  std::vector<spec::Tap> taps;
  for (std::size_t i = 0; i < stencil.taps.size(); ++i) {
    const std::uint32_t whose = i == 0 ? 2 : random() % 3;
    for (const int sum : {0, 1}) {
      if (whose == 1U - static_cast<std::uint32_t>(sum)) continue;
      taps.push_back(stencil.taps[i]);
      taps.back().sum = sum;
      taps.back().weight *= sum == 0 ? 1 : 0x1p-9;
    }
  }
  stencil.taps = std::move(taps);
  return stencil;
}

TEST(Proof, TellsSumsApart) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const spec::StencilSpec stencil = random_sums(seed);
    const plan::PlanResult planned = plan::make_plan(stencil, {plan::Engine::sparse});
    ASSERT_FALSE(planned.diagnostics.has_errors()) << "seed " << seed;
    const PackedKernel packed = pack(planned.plan);
    EXPECT_NO_THROW(prove(stencil, planned.plan, packed)) << "seed " << seed;
    plan::KernelPlan other = planned.plan;
    other.contraction.products.front().sum ^= 1;
    EXPECT_THROW(prove(stencil, other, packed), diag::InternalError) << "seed " << seed;
    plan::KernelPlan unshifted = planned.plan;
    unshifted.weights.sum_shifts[1] += 1;
    EXPECT_THROW(prove(stencil, unshifted, packed), diag::InternalError) << "seed " << seed;
  }
}

TEST(Proof, FindsAPairAtTheWrongDistance) {
  spec::StencilSpec flat = testing::random_volume(1, 4, 0, 0);
  flat.dimensions = 2;
  std::erase_if(flat.taps, [](const spec::Tap& tap) { return tap.at[0] != 0; });
  flat.taps.push_back({{0, 0, 9}, 0.5, {}});  // too far for bands
  std::sort(flat.taps.begin(), flat.taps.end(),
            [](const spec::Tap& a, const spec::Tap& b) { return a.at < b.at; });
  for (const spec::StencilSpec& stencil : {testing::random_volume(1, 2, 0, 0), flat}) {
    plan::KernelPlan plan = plan::make_plan(stencil, {plan::Engine::sparse}).plan;
    EXPECT_NO_THROW(prove(stencil, plan, pack(plan)));
    plan::Source& pair = plan.contraction.sources.back();
    ASSERT_NE(pair.distance(), plan::Position{});
    pair.mapping = plan::diagonal_pair_mapping({pair.distance().y + 1, 0, pair.distance().z});
    EXPECT_THROW(prove(stencil, plan, pack(plan)), diag::InternalError);
  }
}

/// A star of radius 7 whose centre takes two terms.
spec::StencilSpec long_star() {
  spec::StencilSpec stencil;
  for (int dy = -7; dy <= 7; ++dy) {
    if (dy != 0) stencil.taps.push_back({{0, dy, 0}, (dy + 8) / 64.0, {}});
    for (int dx = -7; dx <= 7 && dy == 0; ++dx)
      stencil.taps.push_back({{0, 0, dx}, dx == 0 ? std::sqrt(0.5) : (dx + 9) / 64.0, {}});
  }
  return stencil;
}

TEST(Proof, HoldsForBandsAndFindsTheirMistakes) {
  const spec::StencilSpec stencil = long_star();
  const plan::KernelPlan good = plan::make_plan(stencil, {plan::Engine::sparse}).plan;
  ASSERT_TRUE(good.contraction.is_bands());
  const PackedKernel packed = pack(good);
  EXPECT_NO_THROW(prove(stencil, good, packed));
  const auto refuses = [&](const plan::KernelPlan& bad) {
    EXPECT_THROW(prove(stencil, bad, packed), diag::InternalError);
  };
  const auto changed = [&](const auto& change) {
    plan::KernelPlan bad = good;
    change(bad.contraction);
    return bad;
  };
  // A product that is left out, of the wrong comb, or of the wrong chunk of inputs.
  refuses(changed([](plan::Contraction& contraction) { contraction.products.pop_back(); }));
  refuses(changed([](plan::Contraction& contraction) {
    std::swap(contraction.products[3].operand, contraction.products[6].operand);
  }));
  refuses(changed([](plan::Contraction& contraction) {
    std::swap(contraction.products[3].source, contraction.products[4].source);
  }));
  // Inputs along y in another order, or those of a row as of a column.
  refuses(changed([](plan::Contraction& contraction) {
    std::swap(contraction.sources[0].mapping.column_input[1], contraction.sources[0].mapping.column_input[2]);
  }));
  refuses(changed([](plan::Contraction& contraction) { contraction.sources[1].along_y = true; }));
  int found = 0;
  for (const int operand : {0, 1, 2, 13}) {
    for (int lane = 0; lane < warp_lanes; ++lane) {
      PackedKernel bad = packed;
      bad.operands[operand].values[lane][0] ^= 1U << 10;
      try {
        prove(stencil, good, bad);
      } catch (const diag::InternalError&) {
        ++found;
      }
    }
  }
  EXPECT_EQ(found, 4 * warp_lanes);
}

TEST(Fragment, OfACombIsThatOfB) {
  plan::Matrix matrix(8, 16);
  for (int n = 0; n < 8; ++n) {
    for (int k = 0; k < 16; ++k) matrix.at(n, k) = 16 * n + k;
  }
  const OperandFragment fragment = to_narrow_fragment(matrix);
  for (int n = 0; n < 8; ++n) {
    for (int k = 0; k < 16;
         ++k) {  // PTX ISA 9.7.14.5.8: lane 4 n + (k mod 8) / 2, register k / 8, half k mod 2
      const std::uint32_t word = fragment[4 * n + k % 8 / 2][2 * (k / 8)];
      EXPECT_EQ(plan::from_bits(plan::OperandType::f16, static_cast<std::uint16_t>(word >> (16 * (k % 2)))),
                16 * n + k);
    }
  }
  EXPECT_EQ(from_narrow_fragment(fragment), matrix);
  EXPECT_THROW((void)to_narrow_fragment(plan::Matrix(16, 16)), diag::InternalError);
}

TEST(Proof, FindsEveryFlippedBitOfAnOperandAndItsMetadata) {
  const spec::StencilSpec stencil = testing::random_stencil(5, 2, 3, true);
  const plan::KernelPlan plan = plan::make_plan(stencil, {plan::Engine::sparse}).plan;
  const PackedKernel good = pack(plan);
  int found = 0;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    for (int bit = 0; bit < 32; ++bit) {
      for (int word = 0; word < 4; ++word) {
        PackedKernel bad = good;
        bad.operands[0].values[lane][word] ^= 1U << bit;
        const bool negative_zero =
            bit % 16 == 15 && (good.operands[0].values[lane][word] >> (bit - 15) & 0x7FFFU) == 0;
        if (negative_zero) continue;  // -0 is 0
        EXPECT_THROW(prove(stencil, plan, bad), diag::InternalError) << lane << ' ' << word << ' ' << bit;
        ++found;
      }
    }
  }
  EXPECT_GT(found, 3000);
  PackedKernel bad = good;
  bad.metadata[0] = pack_metadata({select_columns(plan::element_swap_mapping(7))});
  EXPECT_THROW(prove(stencil, plan, bad), diag::InternalError);
}

TEST(Proof, FindsWrongTapsOfCudaCores) {
  const spec::StencilSpec stencil = testing::random_stencil(12, 3, 20, true);
  const plan::KernelPlan plan = plan::make_plan(stencil, {plan::Engine::cuda}).plan;
  const PackedKernel packed = pack(plan);
  EXPECT_NO_THROW(prove(stencil, plan, packed));
  plan::KernelPlan other = plan;
  other.contraction.taps[0].weight *= 1.01F;
  EXPECT_THROW(prove(stencil, other, packed), diag::InternalError);
  plan::KernelPlan moved = plan;
  moved.contraction.taps[0].step -= 1;
  EXPECT_THROW(prove(stencil, moved, packed), diag::InternalError);
  plan::KernelPlan missing = plan;
  missing.contraction.taps.pop_back();
  EXPECT_THROW(prove(stencil, missing, packed), diag::InternalError);
  plan::KernelPlan swapped = plan;
  std::swap(swapped.contraction.taps.front(), swapped.contraction.taps.back());
  EXPECT_THROW(prove(stencil, swapped, packed), diag::InternalError);
}

TEST(Proof, FindsWrongProducts) {
  const spec::StencilSpec stencil = testing::random_stencil(11, 3, 20, true);
  const plan::KernelPlan plan = plan::make_plan(stencil, {plan::Engine::sparse}).plan;
  ASSERT_GT(plan.contraction.products.size(), 1U);
  const PackedKernel packed = pack(plan);
  plan::KernelPlan missing = plan;
  missing.contraction.products.pop_back();
  EXPECT_THROW(prove(stencil, missing, packed), diag::InternalError);
  plan::KernelPlan moved = plan;
  moved.contraction.products[0].row += 1;
  EXPECT_THROW(prove(stencil, moved, packed), diag::InternalError);
  spec::StencilSpec other = stencil;
  other.taps[0].weight *= 1.01;
  EXPECT_THROW(prove(other, plan, packed), diag::InternalError);
}

}  // namespace
}  // namespace spidergen::pack
