#include "images.h"

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "fields.h"

namespace spider::distributed {

std::int64_t count_images(const spider_kernel& kernel, const std::int64_t whole[3]) {
  return kernel.system == nullptr && kernel.info.dimensions < 3 ? whole[0] : 1;
}

Outcome check_images(const spider_kernel& kernel, const std::int64_t whole[3]) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::string name = std::string("the kernel ") + kernel.info.name;
  if (kernel.system != nullptr && kernel.info.dimensions < 3 && whole[0] > 1) {
    return {
        SPIDER_ERROR_UNSUPPORTED,
        name +
            " is a system of equations, which takes no batch: leave one plane, and call it for each image"};
  }
  const std::int64_t images = count_images(kernel, whole);
  if (images >= 1 && images <= most) return {};
  return {SPIDER_ERROR_EXTENT, "the whole has " + std::to_string(images) + " planes, which are images of " +
                                   name + ": there must be 1 to " + std::to_string(most)};
}

Outcome check_images_of(const spider_kernel& kernel, const spider_sweep& sweep, std::int64_t images) {
  if (images == 1) return {};
  for (const auto& [field, name] : {std::pair{sweep.out, "the output"},
                                    {sweep.previous, "the previous field"},
                                    {sweep.out_previous, "out_previous"}}) {
    if (field == nullptr || field->stride[0] == sweep.in->stride[0]) continue;
    return {SPIDER_ERROR_STRIDE,
            std::string("the images of ") + name + " lie " + std::to_string(field->stride[0]) +
                " elements apart, and those of the input " + std::to_string(sweep.in->stride[0]) +
                ": fields that take turns must lie alike"};
  }
  for (std::int32_t i = 0; sweep.fields != nullptr && i < kernel.info.field_count; ++i) {
    const spider_field* const field = sweep.fields[i];
    if (field == nullptr || field->extent[0] == images) continue;
    return {SPIDER_ERROR_EXTENT, std::string("the field ") + kernel.info.field_names[i] + " has " +
                                     std::to_string(field->extent[0]) + " images, and the grid " +
                                     std::to_string(images) + "; with a stride of 0 all have one"};
  }
  return {};
}

FirstImages::FirstImages(const spider_kernel& kernel, const spider_sweep& given, std::int64_t images)
    : sweep_(given) {
  if (images == 1) return;
  constexpr std::size_t most_turns = 4;
  const std::int32_t count = given.fields == nullptr ? 0 : kernel.info.field_count;
  known_.reserve(most_turns + static_cast<std::size_t>(count));
  for (const spider_field** const field : {&sweep_.in, &sweep_.out, &sweep_.previous, &sweep_.out_previous})
    *field = first_of(*field);
  for (std::int32_t i = 0; i < count; ++i) {
    further_.push_back(first_of(given.fields[i]));
    strides_.push_back(given.fields[i] == nullptr ? 0 : given.fields[i]->stride[0]);
  }
  if (count > 0) {
    sweep_.fields = further_.data();
    sweep_.field_batch_strides = strides_.data();
  }
  sweep_.batch = images;
  sweep_.batch_stride = given.in->stride[0];
}

const spider_field* FirstImages::first_of(const spider_field* given) {
  if (given == nullptr) return nullptr;
  Known& added = known_.emplace_back(Known{given, *given});
  added.first.extent[0] = 1;
  return &added.first;
}

const spider_field* FirstImages::whole_of(const spider_field* first) const {
  for (const Known& known : known_) {
    if (&known.first == first) return known.given;
  }
  return first;
}

}  // namespace spider::distributed
