#include "check.h"

#include <vector>

#include "cuda_resources.h"
#include "storage.h"

namespace bench {
namespace {

constexpr int checked_points = 6000;
constexpr int checked_points_of_steps = 300;  // each takes all that its steps reach

}  // namespace

Errors check(const Contestant& contestant, std::uint64_t seed) {
  const DeviceFields& fields = *contestant.fields;
  const int pair = fields.pairs() - 1;
  const Stream stream = make_stream();
  fields.poison_output(pair, stream.get());
  contestant.launch(pair, stream.get());
  const std::vector<Extents> points =
      sample_points(contestant.layout.extents,
                    contestant.stencil.steps > 1 ? checked_points_of_steps : checked_points, seed);
  std::vector<std::int64_t> indices;
  for (const Extents& point : points)
    indices.push_back(contestant.layout.index(point[0], point[1], point[2]));
  const std::vector<double> results = fields.read_output(pair, indices, stream.get());
  const auto cell = [&](std::int64_t index) {
    return cell_value(fields.storage(), fields.seed(pair), index);
  };
  return compare(contestant.stencil, contestant.layout, cell, contestant.arithmetic, points, results);
}

bool is_right(const Contestant& contestant, const Errors& errors) {
  return errors.worst_of_bound <= 1 &&
         errors.relative_l2 <= largest_relative_l2(contestant.arithmetic.storage);
}

}  // namespace bench
