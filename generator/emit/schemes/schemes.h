#pragma once

#include <string>
#include <vector>

#include "emit/kernel_text.h"

namespace spidergen::emit {

/// A scheme's part of templates/kernel.cu.in.
struct SchemeText {
  std::string stencil;             ///< `struct Stencil`, for the scheme's device header, with its tables
  std::vector<std::string> forms;  ///< ways to sweep, from large boxes to small ones
  std::vector<std::string> more_schemes = {};  ///< schemes of further forms, for their headers
};
[[nodiscard]] SchemeText text_of(const plan::Stream1d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Block2d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Star2d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Stream2d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Stream3d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Cores2d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Cores3d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::CudaCores&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Stepping1d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Stepping2d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Levels3d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Stepping3d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Lowrank2d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::Passes2d&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::OneList&, const Kernel& kernel);
[[nodiscard]] SchemeText text_of(const plan::BandedList&, const Kernel& kernel);

/// `struct WithBoundaryContribution`, the Stencil of a 3D kernel on tensor cores whose constant faces add to
/// results; `scale` is the factor of sums.
[[nodiscard]] std::string boundary3d_struct(const plan::BoundaryContribution& added, double scale);

/// `struct Stencil` for time steps.
[[nodiscard]] std::string stepping_struct(const plan::Stepping2d& scheme, const Kernel& kernel);

/// Each adds its scheme's lines to the report (describe.h).
using Lines = std::vector<std::string>;
void describe(const plan::Stream1d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Block2d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Star2d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Stream2d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Stream3d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Cores2d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Cores3d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::CudaCores&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Stepping1d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Stepping2d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Levels3d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Stepping3d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Lowrank2d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::Passes2d&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::OneList&, const plan::KernelPlan& plan, Lines& lines);
void describe(const plan::BandedList&, const plan::KernelPlan& plan, Lines& lines);

/// Each is its scheme's object in --explain's JSON: `streaming`, or on CUDA cores `cores`.
[[nodiscard]] std::string json_of(const plan::Stream1d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Block2d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Star2d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Stream2d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Stream3d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Cores2d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Cores3d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::CudaCores&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Stepping1d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Stepping2d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Levels3d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Stepping3d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Lowrank2d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::Passes2d&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::OneList&, const plan::KernelPlan& plan);
[[nodiscard]] std::string json_of(const plan::BandedList&, const plan::KernelPlan& plan);

}  // namespace spidergen::emit
