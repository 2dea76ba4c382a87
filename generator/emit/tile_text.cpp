#include "emit/tile_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emit/describe.h"

namespace spidergen::emit {

void describe_forms(const std::vector<plan::TileForm>& forms, std::vector<std::string>& lines) {
  const plan::TileForm& high = forms.front();
  add(lines,
      "          {} of 128 x a warp, whose inputs are all requested at once{}; {} warps a "
      "block, {} abreast",
      counted(high.rows, "row"), high.in_registers ? "" : ", into shared memory", high.across * high.down,
      high.across);
  std::vector<int> lower;
  for (std::size_t i = 1; i < forms.size(); ++i) {
    // After the form for all remaining boxes there are only forms for unaligned rows.
    if (i > 1 && forms[i - 1].min_blocks_per_sm == 0) break;
    if (lower.empty() || lower.back() != forms[i].rows) lower.push_back(forms[i].rows);
  }
  add(lines, "          {} rows{} where these would be fewer than {} blocks a multiprocessor",
      fmt::join(lower, " or "), !high.in_registers && forms[1].in_registers ? ", in registers," : "",
      high.min_blocks_per_sm);
}

std::string forms_json(const std::vector<plan::TileForm>& forms, int registers, int shared_bytes) {
  std::vector<std::string> texts;
  for (const plan::TileForm& form : forms) {
    texts.push_back(
        fmt::format(R"({{"tile_rows": {}, "warps_per_block": {}, "tiles_across": {}, "least_blocks": {}, )"
                    R"("any_rows": {}, "in_shared_memory": {}}})",
                    form.rows, form.across * form.down, form.across, form.min_blocks_per_sm,
                    form.allows_unaligned, !form.in_registers));
  }
  return fmt::format(R"({{"tile_forms": [{}], "estimated_registers": {}, "shared_bytes": {}}})",
                     fmt::join(texts, ", "), registers, shared_bytes);
}

}  // namespace spidergen::emit
