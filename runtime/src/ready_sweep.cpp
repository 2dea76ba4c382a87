#include "ready_sweep.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "tiling.h"

namespace spider {
namespace {

using backend::Outcome;

/// Which fields' rows start where vectors can be read or written: the same condition for all forms of a
/// kernel.
struct AlignedRows {
  bool in;
  bool out;
};

/// True if a row that starts on that many bytes does so in all images.
bool keeps_alignment(const Batch& batch, std::int64_t stride, std::int64_t element, std::int64_t bytes) {
  return batch.count == 1 || stride * element % bytes == 0;
}

AlignedRows find_aligned_rows(const spider_kernel& kernel, const SweepFields& given, const spider_field& in,
                              const spider_field& out, const Tiling& tiling) {
  // Time steps in 3D count the cells of a plane that they read in vectors with 32 bits. Small fields may use
  // such a form where the first form is another.
  const bool counts_planes =
      std::any_of(kernel.forms, kernel.forms + kernel.form_count, [](const SweepForm& form) {
        return form.tiling.kind == TilingKind::blocks && form.tiling.balances_tail;
      });
  const std::int64_t bytes = element_bytes(kernel);
  const Batch& batch = given.batch;
  return {
      rows_aligned(kernel, in, tiling.input_alignment, true) &&
          keeps_alignment(batch, batch.stride_of(given.in), bytes, tiling.input_alignment) &&
          (!counts_planes || plane_cells_fit_32_bits(kernel, in)),
      rows_aligned(kernel, out, tiling.output_alignment, false) &&
          keeps_alignment(batch, batch.stride_of(given.out), output_bytes(kernel), tiling.output_alignment)};
}

SweepArguments make_arguments(const spider_field& in, const spider_field& out, const AlignedRows& aligned,
                              const Box& box, const BlockGrid& grid) {
  return {in.data,
          out.data,
          {in.stride[0], in.stride[1]},
          {out.stride[0], out.stride[1]},
          {in.extent[0], in.extent[1], in.extent[2]},
          box,
          grid,
          aligned.in,
          aligned.out};
}

/// Sets the update's arguments for a sweep of that many steps. Returns whether the rows of all its fields
/// start on 16 bytes.
bool add_update(const spider_kernel& kernel, const SweepFields& given, const PlacedFields& placed,
                const spider_part& part, std::int32_t steps, UpdateArguments& arguments) {
  constexpr std::int64_t vector_bytes = 16;
  bool aligned = true;
  std::int32_t count = 0;
  for (const OtherField& other : other_fields(kernel, given)) {
    const spider_field field = place_other(kernel, placed, other, part);
    if (other.takes_turns) {
      arguments.before = field.data;
      std::copy_n(field.stride, 2, arguments.before_stride);
    } else {
      arguments.further[count++] = {field.data, {field.stride[0], field.stride[1]}};
    }
    aligned = aligned && rows_aligned(field, other.storage, vector_bytes) &&
              keeps_alignment(given.batch, other.image_stride, bytes_of(other.storage), vector_bytes);
  }
  if (given.out_previous != nullptr && steps > 1) {
    const spider_field field = place_fields(kernel, *given.in, *given.out_previous, part).out;
    arguments.output_before = field.data;
    std::copy_n(field.stride, 2, arguments.output_before_stride);
    aligned = aligned && rows_aligned(field, kernel.info.storage, vector_bytes) &&
              keeps_alignment(given.batch, given.batch.stride_of(given.out_previous), element_bytes(kernel),
                              vector_bytes);
  }
  for (std::int32_t i = 0; i < kernel.info.scalar_count; ++i) {
    arguments.scalars[i] = static_cast<float>(given.scalars[i]);
    arguments.wide_scalars[i] = given.scalars[i];
  }
  for (int axis = 0; axis < 3; ++axis) {
    arguments.first[axis] = placed.origin[axis] - part.origin[axis];
    arguments.whole[axis] = part.whole[axis];
  }
  return aligned;
}

/// True if all forms of that many steps find the images of a launch themselves.
bool takes_images(const spider_kernel& kernel, std::int32_t steps) {
  return kernel.forms[0].sweep.update == nullptr &&
         std::all_of(kernel.forms, kernel.forms + kernel.form_count, [&](const SweepForm& form) {
           return form.steps != steps || (form.takes_images && !has_rims(form));
         });
}

ImageSteps find_image_steps(const spider_kernel& kernel, const SweepFields& given, std::int32_t steps) {
  const Batch& batch = given.batch;
  ImageSteps images;
  if (batch.count == 1) return images;
  const std::int64_t bytes = element_bytes(kernel);
  images.count = batch.count;
  images.in_one_launch = takes_images(kernel, steps);
  images.input = batch.stride_of(given.in) * bytes;
  images.output = batch.stride_of(given.out) * output_bytes(kernel);
  if (given.out_previous != nullptr) images.output_before = batch.stride_of(given.out_previous) * bytes;
  std::size_t count = 0;
  for (const OtherField& other : other_fields(kernel, given)) {
    const std::int64_t step = other.image_stride * bytes_of(other.storage);
    if (other.takes_turns) {
      images.before = step;
    } else {
      images.further[count++] = step;
    }
  }
  return images;
}

/// The share of a device that one image has, if one launch has all of them.
backend::Residencies share_of_image(const backend::Residencies& residencies, const ImageSteps& images) {
  backend::Residencies shares = residencies;
  if (!images.in_one_launch) return shares;
  for (backend::Residency& share : shares) {
    share.multiprocessors = static_cast<std::int32_t>(
        std::max<std::int64_t>(1, (share.multiprocessors + images.count - 1) / images.count));
  }
  return shares;
}

/// Where the fields of a sweep lie, and the update's arguments.
struct PlacedSweep {
  PlacedFields fields;
  spider_part part;
  AlignedRows aligned;
  UpdateArguments update;  ///< set by add_update()
};

PlacedSweep place_sweep(const spider_kernel& kernel, const SweepFields& given, const spider_part* part,
                        std::int32_t steps) {
  PlacedSweep sweep{};
  sweep.part = part == nullptr ? whole_part(*given.in) : *part;
  sweep.fields = part == nullptr ? PlacedFields{*given.in, *given.out, {0, 0, 0}}
                                 : place_fields(kernel, *given.in, *given.out, sweep.part);
  // Forms of the same number of steps read and store alike, except those of rims.
  const SweepForm* const end = kernel.forms + kernel.form_count;
  const SweepForm* const first =
      std::find_if(kernel.forms, end, [&](const SweepForm& form) { return form.steps == steps; });
  sweep.aligned = find_aligned_rows(kernel, given, sweep.fields.in, sweep.fields.out, first->tiling);
  if (kernel.forms[0].sweep.update != nullptr) {
    sweep.aligned.out =
        add_update(kernel, given, sweep.fields, sweep.part, steps, sweep.update) && sweep.aligned.out;
  }
  return sweep;
}

Box whole_of(const spider_part& part) {
  return {{0, 0, 0}, {part.whole[0], part.whole[1], part.whole[2]}};
}

}  // namespace

bool writes_before(const spider_kernel& kernel) {
  return kernel.info.previous != nullptr && kernel.info.steps > 1;
}

std::vector<OtherField> other_fields(const spider_kernel& kernel, const SweepFields& given) {
  const spider_kernel_info& info = kernel.info;
  std::vector<OtherField> others;
  if (info.previous != nullptr) {
    others.push_back({given.previous, info.storage, "the previous field " + std::string(info.previous),
                      writes_before(kernel), given.batch.stride_of(given.previous)});
  }
  for (std::int32_t i = 0; i < info.field_count; ++i) {
    others.push_back({given.further == nullptr ? nullptr : given.further[i], info.field_storages[i],
                      "the field " + std::string(info.field_names[i]), false,
                      given.batch.stride_of_further(i)});
  }
  return others;
}

Box whole_interior(const spider_field& field) {
  return {{0, 0, 0}, {field.extent[0], field.extent[1], field.extent[2]}};
}

Box box_in_whole(const Box& box, const PlacedFields& fields) {
  return {
      {fields.origin[0] + box.offset[0], fields.origin[1] + box.offset[1], fields.origin[2] + box.offset[2]},
      {box.extent[0], box.extent[1], box.extent[2]}};
}

backend::FormSet forms_for(const spider_kernel& kernel, const SweepFields& given, const spider_part* part,
                           const backend::Residencies& residencies, std::int32_t steps) {
  const PlacedSweep sweep = place_sweep(kernel, given, part, steps);
  return forms_to_choose_from(kernel, sweep.aligned.in && sweep.aligned.out, residencies, steps,
                              whole_of(sweep.part));
}

ReadySweep make_ready(const spider_kernel& kernel, const SweepFields& given, const Box& box,
                      const spider_part* part, const backend::Residencies& residencies, std::int32_t steps) {
  PlacedSweep sweep = place_sweep(kernel, given, part, steps);
  auto& [placed, place, aligned, arguments] = sweep;
  const Box points = box_in_whole(box, placed);
  const ImageSteps images = find_image_steps(kernel, given, steps);
  const auto [chosen, launch, of_form, rims, rims_form] =
      choose_form(kernel, points, aligned.in && aligned.out, share_of_image(residencies, images), steps,
                  whole_interior(placed.in), whole_of(place));
  static_cast<SweepArguments&>(arguments) =
      make_arguments(placed.in, placed.out, aligned, of_form, launch.grid);
  if (images.in_one_launch) {
    arguments.input_stride[0] = given.batch.stride_of(given.in);
    arguments.output_stride[0] = given.batch.stride_of(given.out);
    arguments.grid.volume.first_wave = 0;  // blocks count within an image: not all come first
  }
  const AlignedRows rims_aligned =
      find_aligned_rows(kernel, given, placed.in, placed.out, kernel.forms[rims_form].tiling);
  BoxesArguments of_rims{make_arguments(placed.in, placed.out, rims_aligned, points, {}), {}};
  std::copy(std::begin(rims.boxes), std::end(rims.boxes), std::begin(of_rims.boxes));
  const SweepForm& form = kernel.forms[chosen];
  return {placed.in,
          placed.out,
          &form,
          arguments,
          launch.blocks,
          form.starts_early && residencies.at(chosen).starts_early,
          &kernel.forms[rims_form],
          of_rims,
          rims.blocks,
          kernel.forms[rims_form].starts_early && residencies.at(rims_form).starts_early,
          form.overlaps_rims && residencies.at(chosen).starts_early,
          images};
}

namespace {

void move_by(const void*& data, std::int64_t bytes) {
  data = static_cast<const std::byte*>(data) + bytes;
}
void move_by(void*& data, std::int64_t bytes) {
  data = static_cast<std::byte*>(data) + bytes;
}

}  // namespace

ReadySweep ReadySweep::from_image(std::int64_t image) const {
  ReadySweep moved = *this;
  move_by(moved.in.data, image * images.input);
  move_by(moved.out.data, image * images.output);
  for (SweepArguments* of_launch :
       {static_cast<SweepArguments*>(&moved.arguments), static_cast<SweepArguments*>(&moved.rims)}) {
    move_by(of_launch->input, image * images.input);
    move_by(of_launch->output, image * images.output);
  }
  move_by(moved.arguments.before, image * images.before);
  move_by(moved.arguments.output_before, image * images.output_before);
  for (std::size_t i = 0; i < most_further_fields; ++i)
    move_by(moved.arguments.further[i].data, image * images.further[i]);
  return moved;
}

Outcome ReadySweep::launch(const spider_kernel& kernel, void* stream) const {
  if (images.count == 1) return launch_first(kernel, 1, stream);
  constexpr std::int64_t most_images = 65535;  // in a launch
  for (std::int64_t image = 0; image < images.count;) {
    const std::int64_t now = images.in_one_launch ? std::min(images.count - image, most_images) : 1;
    if (Outcome failed = from_image(image).launch_first(kernel, static_cast<std::int32_t>(now), stream))
      return failed;
    image += now;
  }
  return {};
}

Outcome ReadySweep::launch_first(const spider_kernel& kernel, std::int32_t image_count, void* stream) const {
  if (rim_blocks > 0) {
    Outcome launched = backend::launch(kernel, {*rims_form, rim_blocks, rims_early, stream}, rims, in, out);
    if (launched || blocks == 0) return launched;
  }
  const bool is_early = rim_blocks > 0 ? beside : early;
  return backend::launch(kernel, {*form, blocks, is_early, stream, image_count}, arguments, in, out);
}

}  // namespace spider
