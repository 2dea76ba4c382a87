#include "plan/tile_form.h"

#include "plan/problem.h"

namespace spidergen::plan {

void make_room_for_update(const spec::StencilSpec& spec, std::vector<TileForm>& forms) {
  for (TileForm& form : forms) {
    form.blocks_per_multiprocessor = blocks_beside_update(spec, form.blocks_per_multiprocessor,
                                                          form.across * form.down * threads_per_warp);
  }
}

}  // namespace spidergen::plan
