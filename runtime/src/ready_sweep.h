/// A sweep whose arguments are made and whose boxes are cut, to be launched once or often.
#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <vector>

#include "backend.h"
#include "fields.h"

namespace spider {

/// What a sweep is given: `previous`, `further` and `scalars` are null where the kernel takes none.
struct SweepFields {
  const spider_field* in = nullptr;
  const spider_field* out = nullptr;
  const spider_field* previous = nullptr;
  const spider_field* const* further = nullptr;
  const double* scalars = nullptr;
  const spider_field* out_previous = nullptr;
};

/// Does a sweep of the kernel's steps write the step before the last one, too?
[[nodiscard]] bool writes_before(const spider_kernel& kernel);

/// The fields that the kernel takes beside input and output, given or not.
[[nodiscard]] std::vector<OtherField> other_fields(const spider_kernel& kernel, const SweepFields& given);

[[nodiscard]] Box whole_interior(const spider_field& field);

/// A box of a part, counted in the whole.
[[nodiscard]] Box box_in_whole(const Box& box, const PlacedFields& fields);

/// A sweep that only needs to be launched.
struct ReadySweep {
  spider_field in;
  spider_field out;
  const SweepForm* form;
  UpdateArguments arguments;  ///< of kernels without an update the base alone counts
  std::int64_t blocks;
  bool early;  ///< may the sweep start while what is ahead of it still runs?
  // What the form of the rims computes, ahead of it: both read the input alone, and write other cells.
  const SweepForm* rims_form;
  BoxesArguments rims;
  std::int64_t rim_blocks;
  bool rims_early;  ///< as `early`
  bool beside;      ///< the same of what is ahead but for the launch of the rims

  [[nodiscard]] backend::Outcome launch(const spider_kernel& kernel, void* stream) const {
    if (rim_blocks > 0) {
      backend::Outcome launched =
          backend::launch(kernel, {*rims_form, rim_blocks, rims_early, stream}, rims, in, out);
      if (launched.status != SPIDER_OK || blocks == 0) return launched;
    }
    const bool is_early = rim_blocks > 0 ? beside : early;
    return backend::launch(kernel, {*form, blocks, is_early, stream}, arguments, in, out);
  }
};

/// Of `steps` time steps, of which the kernel has a form; the fields are a part of a whole, or `part` is
/// null. Kernel and fields are checked already.
[[nodiscard]] ReadySweep make_ready(const spider_kernel& kernel, const SweepFields& given, const Box& box,
                                    const spider_part* part, const backend::Residencies& residencies,
                                    std::int32_t steps);

}  // namespace spider
