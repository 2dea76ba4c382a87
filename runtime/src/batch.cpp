#include "batch.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fields.h"

namespace spider {
namespace {

using backend::Outcome;

constexpr std::int64_t most_images = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t largest_elements = largest_span_bytes / 8;

Outcome check_image_stride(std::int64_t stride, std::int64_t images, const std::string& name) {
  if (stride >= 0 && stride <= largest_stride && stride <= largest_elements / images) return {};
  return refuse(SPIDER_ERROR_STRIDE, name + " is " + std::to_string(stride) +
                                         "; it must be 0 to 2^40 elements, and the images must span no more "
                                         "than 2^60 bytes");
}

/// Rows of the first image, and the distance to the next image, in bytes.
struct ImageRows {
  ByteRows rows;
  std::int64_t step;
  std::string name;

  [[nodiscard]] std::int64_t first_byte(std::int64_t image) const { return rows.first + image * step; }
  [[nodiscard]] std::int64_t bytes() const { return rows.end(rows.count() - 1) - rows.begin(0); }
};

ByteRows moved(ByteRows rows, std::int64_t bytes) {
  rows.first += bytes;
  return rows;
}

/// If images are equally far apart, only the difference of their numbers matters.
bool share_at_a_difference(const ImageRows& a, const ImageRows& b, std::int64_t images) {
  for (std::int64_t apart = 1; apart < images; ++apart) {
    const std::int64_t bytes = apart * a.step;
    const std::int64_t gap = b.rows.first - a.rows.first;
    if (bytes > a.bytes() + b.bytes() + std::max(gap, -gap)) return false;
    if (overlap(a.rows, moved(b.rows, bytes)) || overlap(a.rows, moved(b.rows, -bytes))) return true;
  }
  return false;
}

std::int64_t divide_down(std::int64_t dividend, std::int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

/// True if two images share a byte. Skips pairs of the same number that lie as the first ones do.
bool share_across(const ImageRows& a, const ImageRows& b, std::int64_t images) {
  const std::int64_t last = images - 1;
  if (a.first_byte(last) + a.bytes() <= b.first_byte(0) || b.first_byte(last) + b.bytes() <= a.first_byte(0))
    return false;
  if (a.step == b.step) return share_at_a_difference(a, b, images);
  for (std::int64_t i = 0; i < images; ++i) {
    // The images of b that end after this image's begin and begin before its end.
    const std::int64_t begin = a.first_byte(i) - b.bytes() - b.first_byte(0);
    const std::int64_t end = a.first_byte(i) + a.bytes() - b.first_byte(0);
    std::int64_t low = 0;
    std::int64_t high = last;
    if (b.step > 0) {
      low = std::max<std::int64_t>(low, divide_down(begin, b.step));
      high = std::min(high, divide_down(end, b.step));
    }
    for (std::int64_t j = low; j <= high; ++j) {
      if (i + j > 0 && overlap(moved(a.rows, i * a.step), moved(b.rows, j * b.step))) return true;
    }
  }
  return false;
}

}  // namespace

Outcome check_batch(const spider_kernel& kernel, const spider_sweep& sweep) {
  const std::string name = "the kernel " + std::string(kernel.info.name);
  if (sweep.batch < 0 || sweep.batch > most_images) {
    return refuse(SPIDER_ERROR_EXTENT, "the batch has " + std::to_string(sweep.batch) +
                                           " images; there must be 0 to " + std::to_string(most_images) +
                                           ", where 0 stands for one");
  }
  if (sweep.batch <= 1) return {};
  if (kernel.system != nullptr) {
    return refuse(SPIDER_ERROR_UNSUPPORTED,
                  name + " is a system of equations, which takes no batch: call it for each image");
  }
  const std::int64_t images = sweep.batch;
  if (Outcome failed = check_image_stride(sweep.batch_stride, images, "batch_stride")) return failed;
  if (Outcome failed = check_image_stride(sweep.out_batch_stride, images, "out_batch_stride")) return failed;
  if (sweep.field_batch_strides == nullptr) return {};
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    if (Outcome failed =
            check_image_stride(sweep.field_batch_strides[i], images,
                               "field_batch_strides of " + std::string(kernel.info.field_names[i])))
      return failed;
  }
  return {};
}

Batch batch_of(const spider_sweep& sweep) {
  Batch batch;
  if (sweep.batch <= 1) return batch;
  batch.count = sweep.batch;
  batch.stride = sweep.batch_stride;
  batch.out_stride = sweep.out_batch_stride == 0 ? sweep.batch_stride : sweep.out_batch_stride;
  batch.out = sweep.out;
  batch.out_previous = sweep.out_previous;
  batch.further = sweep.field_batch_strides;
  return batch;
}

SweepFields given_by(const spider_sweep& given) {
  const spider_sweep sweep = extended(given);
  return {sweep.in,           sweep.out,       sweep.previous, sweep.fields,       sweep.scalars,
          sweep.out_previous, batch_of(sweep), sweep.scratch,  sweep.scratch_bytes};
}

Outcome check_apart(const spider_kernel& kernel, const SweepFields& given, const spider_part& part) {
  if (is_empty(*given.in)) return {};
  const Batch& batch = given.batch;
  const std::int64_t bytes = output_bytes(kernel);
  const auto rows_read = [](const spider_field& field, const CellBox& cells, std::int64_t stride,
                            std::int32_t storage, std::string name) {
    return ImageRows{rows_of(field, cells, bytes_of(storage)), stride * bytes_of(storage), std::move(name)};
  };
  std::vector<ImageRows> written;
  for (const auto& [field, name] :
       {std::pair{given.out, "the output"}, std::pair{given.out_previous, "out_previous"}}) {
    if (field == nullptr) continue;
    written.push_back({rows_of(*field, interior_of(*field), bytes), batch.stride_of(field) * bytes, name});
  }
  std::vector<ImageRows> others = written;
  others.push_back(rows_read(*given.in, cells_read_of(kernel, *given.in, part), batch.stride_of(given.in),
                             kernel.info.storage, "the input, with its halo,"));
  for (const OtherField& other : other_fields(kernel, given)) {
    others.push_back(rows_read(*other.field, cells_read_of(kernel, other, part), other.image_stride,
                               other.storage, other.name));
  }
  for (const ImageRows& output : written) {
    for (const ImageRows& other : others) {
      if (!share_across(output, other, batch.count)) continue;
      return refuse(SPIDER_ERROR_OVERLAP, output.name + " of one image and " + other.name +
                                              " of another share cells: the images, " +
                                              std::to_string(output.step) + " and " +
                                              std::to_string(other.step) + " bytes apart, must not");
    }
  }
  return {};
}

Outcome check_scratch_apart(const spider_kernel& kernel, const SweepFields& given, const spider_part& part,
                            std::uint64_t bytes) {
  const spider_field scratch{given.scratch, {1, 1, static_cast<std::int64_t>(bytes)}, {0, 0}};
  const ByteRows own = rows_of(scratch, interior_of(scratch), 1);
  for (const auto& [field, cell_bytes, name] : {std::tuple{given.in, element_bytes(kernel), "the input"},
                                                std::tuple{given.out, output_bytes(kernel), "the output"}}) {
    const ByteRows rows = rows_of(*field, cells_read_of(kernel, *field, part), cell_bytes);
    const std::int64_t step = given.batch.stride_of(field) * cell_bytes;
    for (std::int64_t image = 0; image < given.batch.count; ++image) {
      if (overlap(own, moved(rows, image * step)))
        return refuse(SPIDER_ERROR_OVERLAP, "the scratch and " + std::string(name) + " share memory");
    }
  }
  return {};
}

spider_field image_of(const SweepFields& given, const spider_field* first, std::int64_t bytes,
                      std::int64_t image) {
  spider_field field = *first;
  field.data = static_cast<std::byte*>(field.data) + image * given.batch.stride_of(first) * bytes;
  return field;
}

}  // namespace spider
