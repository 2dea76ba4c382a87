#include "emit/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emit/describe.h"
#include "emit/kernel_text.h"
#include "emit/schemes/rims_text.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "emit/update_text.h"
#include "plan/compose.h"
#include "render/render.h"

namespace spidergen::emit {
namespace {

std::string faces_text(const spec::StencilSpec& spec) {
  std::vector<std::string> axes;
  for (const spec::AxisBoundary& axis : spec.boundary) {
    const auto face = [&](const spec::Face& f) {
      return fmt::format("{{spider::FaceRule::{}, {:a}{}}}", spec::rule_name(f.rule),
                         plan::stored_value(spec.storage, f.value),
                         spec.storage == spec::Storage::f64 ? "" : "F");
    };
    axes.push_back(fmt::format("{{{}, {}}}", face(axis.low), face(axis.high)));
  }
  return fmt::format("{}", fmt::join(axes, ",\n"));
}

std::string tap_rows_text(const plan::KernelPlan& plan) {
  constexpr std::size_t rows_per_line = 6;  // for steps, which have many rows of one form
  std::string text;
  for (std::size_t i = 0; i < plan.tap_rows.size(); ++i) {
    const plan::TapRow& row = plan.tap_rows[i];
    const bool begins_line = plan.op.steps == 1 || i % rows_per_line == 0;
    if (i > 0) text += begins_line ? "\n" : " ";
    text += fmt::format("{{{}, {}, {}, {}}},", row.dz, row.dy, row.low, row.high);
  }
  return text;
}

/// A line per tap row, folded after four taps. With several sums each tap names its own.
std::string taps_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  constexpr int taps_per_line = 4;
  std::string text;
  int on_line = 0;
  const plan::RoundedTap* previous = nullptr;
  for (const plan::RoundedTap& tap : plan.weights.taps) {
    const bool same_row = previous != nullptr && previous->at[0] == tap.at[0] && previous->at[1] == tap.at[1];
    const bool fold = !same_row || on_line == taps_per_line;
    if (previous != nullptr) text += fold ? "\n" : " ";
    on_line = fold ? 1 : on_line + 1;
    const std::string sum = spec.sums.size() > 1 ? fmt::format(", {}", tap.sum) : "";
    text += fmt::format("{{{}, {}{}}},", fmt::join(tap.at, ", "), tap.packed, sum);
    previous = &tap;
  }
  return text;
}

/// The contract with a caller, for the header.
std::string contract_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::string text =
      fmt::format("/* The kernel for spider_apply and its kin; fields hold {}{}.", storage_name(spec.storage),
                  spec.output ? fmt::format(", results {}", storage_name(*spec.output)) : "");
  for (const std::string& line : report(spec, plan)) {
    if (line.starts_with("Stencil") || line.starts_with("Axes") || line.starts_with("Boundary") ||
        line.starts_with("Bound  ") || line.starts_with("Update") || line.starts_with("Fields") ||
        line.starts_with("Scalars"))
      text += "\n * " + line;
  }
  return text + " */";
}

EmittedFile emit_header(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                        const std::string& version) {
  return {spec.name + ".h",
          header_text(spec.name, contract_text(spec, plan), provenance(spec, summary(spec), version))};
}

/// Binds the stencil's facts, common to all kernels.
void bind_stencil(const spec::StencilSpec& spec, const plan::KernelPlan& plan, render::Bindings& bindings) {
  bindings["report"] = comment_text(report(spec, plan));
  bindings["faces"] = faces_text(spec);
  bindings["tap_rows"] = tap_rows_text(plan);
  bindings["taps"] = taps_text(spec, plan);
  bindings["dimensions"] = fmt::to_string(spec.dimensions);
  bindings["reach_low"] = fmt::format("{}", fmt::join(plan.op.reach_low, ", "));
  bindings["reach_high"] = fmt::format("{}", fmt::join(plan.op.reach_high, ", "));
}

/// The forms of a kernel that is compiled for the host: for all steps, and for one.
std::string host_forms_text(const Kernel& kernel) {
  const auto form = [&](int steps) {
    const bool adds_identity = kernel.plan.weights.adds_identity;
    if (kernel.spec.update) {
      return fmt::format("spider::host_form<taps, tap_rows, faces, {}, {}, {}, Update>(),",
                         storage_code(kernel.spec.storage), steps, adds_identity);
    }
    if (kernel.spec.output) {
      return fmt::format(
          "spider::host_form<taps, tap_rows, faces, {}, {}, {}, spider::loops::NoUpdate, {}>(),",
          storage_code(kernel.spec.storage), steps, adds_identity, storage_code(*kernel.spec.output));
    }
    return fmt::format("spider::host_form<taps, tap_rows, faces, {}, {}{}>(),",
                       storage_code(kernel.spec.storage), steps, adds_identity ? ", true" : "");
  };
  const int steps = kernel.plan.op.steps;
  return steps == 1 ? form(1) : form(steps) + "\n" + form(1);
}

/// The struct from which forms are made, with the update where there is one.
std::string with_update(std::string form) {
  for (const std::string_view stencil : {"Stencil", "SingleStep"}) {
    const std::string plain = fmt::format("<{}", stencil);
    const std::string updated = fmt::format("<spider::Updated<{}, Update>", stencil);
    for (std::size_t at = 0; (at = form.find(plain, at)) != std::string::npos; at += updated.size())
      form.replace(at, plain.size(), updated);
  }
  return form;
}

/// The scheme's text; for composed steps that of all as one, and in a namespace that of a single step.
SchemeText scheme_text(const Kernel& kernel) {
  const auto text_for = [](const plan::Scheme& scheme, const Kernel& of) {
    return std::visit([&](const auto& chosen) { return text_of(chosen, of); }, scheme);
  };
  if (!kernel.plan.composition) return text_for(kernel.plan.scheme, kernel);
  const plan::KernelPlan composed = plan::plan_of_composed(kernel.spec, kernel.plan);
  const spec::StencilSpec spec = plan::composed_spec(kernel.spec, composed.weights);
  SchemeText text = text_for(composed.scheme, {spec, composed, kernel.packed});
  const plan::KernelPlan single = plan::plan_of_single_step(kernel.spec, kernel.plan);
  const SchemeText left = text_for(single.scheme, {kernel.spec, single, {}});
  text.stencil = fmt::format("// All {} steps as one.\n", kernel.plan.op.steps) + text.stencil;
  const plan::ComposedSteps& composition = *kernel.plan.composition;
  const bool adds = composition.added.exist();
  const bool steps_small = composition.fewest > 0;
  if (adds) text.stencil += boundary3d_struct(composition.added, composition.weights.result_scale(0));
  text.stencil += fmt::format("\n\n// For what is left of a number of steps{}.\n",
                              steps_small ? ", and all of small fields" : "") +
                  "namespace single_step {\n\n" + left.stencil + "\n\n}  // namespace single_step";
  constexpr std::string_view stencil = "<Stencil";
  for (std::string& form : text.forms) {
    form.pop_back();  // the comma at its end
    form = fmt::format("spider::composed_form({}, {})", form, kernel.plan.op.steps);
    if (composition.rim_steps) form = with_rims(form, composition.rims, composition.least);
    if (adds) form.replace(form.find(stencil), stencil.size(), "<WithBoundaryContribution");
    if (steps_small) form = fmt::format("spider::of_large_fields({}, {})", form, composition.fewest);
    form += ",";
  }
  if (composition.rim_steps) {
    text.stencil += rims_namespace(*composition.rim_steps, kernel.spec);
    text.forms.emplace_back(rims_form);
    text.more_schemes.emplace_back(plan::RimTiles::name);
  }
  // The last form is for any fields; where small fields are stepped, they also need the form of all steps.
  for (auto form = steps_small ? left.forms.begin() : left.forms.end() - 1; form != left.forms.end();
       ++form) {
    std::string own = *form;
    text.forms.push_back(own.replace(own.find('<'), 1, "<single_step::"));
  }
  text.more_schemes.emplace_back(plan::scheme_name(single.scheme));
  return text;
}

/// Binds the origin of a file, common to all its kernels.
render::Bindings source_bindings(const Kernel& kernel, const std::string& version) {
  render::Bindings bindings = provenance(kernel.spec, summary(kernel.spec), version);
  // Not in the header: a changed comment in the spec must not recompile its includers.
  bindings["hash"] = kernel.spec.source_hash;
  bind_stencil(kernel.spec, kernel.plan, bindings);
  bindings["storage_code"] = storage_code(kernel.spec.storage);
  bindings["device_abi"] = fmt::to_string(device_abi);
  bindings["products"] = fmt::to_string(kernel.contraction().chained_products());
  return bindings;
}

/// The facts after the products, where results have a storage of their own.
std::string output_facts(const spec::StencilSpec& spec) {
  return spec.output ? fmt::format(", 1, {{}}, 0, {}", storage_code(*spec.output)) : "";
}

/// What a kernel has of its own: its scheme, its update, its forms and facts.
void bind_kernel(const Kernel& kernel, const SchemeText& text, render::Bindings& bindings) {
  bindings["host_forms"] = host_forms_text(kernel);
  bindings["update"] = kernel.spec.update ? update_struct(kernel.spec, kernel.plan.op.steps) : "";
  bindings["minimum_arch"] = fmt::to_string(minimum_arch(kernel.plan.engine));
  bindings["stencil"] = text.stencil;
  bindings["forms"] = fmt::format("{}", fmt::join(text.forms, "\n"));
  // Of one step a kernel says nothing.
  bindings["facts"] = kernel.plan.op.steps == 1 ? "" : fmt::format(", {}", kernel.plan.op.steps);
  const std::string of_update = kernel.spec.update ? update_facts(kernel.spec) : "{}";
  const double neighbourhood = kernel.plan.error_bound.neighbourhood;
  if (kernel.spec.update) {
    bindings["forms"] = with_update(bindings["forms"]);
    bindings["facts"] = fmt::format(", {}, {}", kernel.plan.op.steps, of_update);
  }
  if (neighbourhood > 0)
    bindings["facts"] = fmt::format(", {}, {}, {:.4g}", kernel.plan.op.steps, of_update, neighbourhood);
  if (kernel.spec.output) bindings["facts"] = output_facts(kernel.spec);
}

std::string pass_text(const plan::PassPlan& pass, const std::string& version,
                      std::set<std::string>& schemes) {
  const std::string axes = plan::axis_names(pass);
  return inner_kernel({"The pass along " + axes, "pass_" + axes, pass.spec, pass.plan}, version, schemes);
}

EmittedFile emit_passes(const Kernel& kernel, const std::string& version) {
  render::Bindings bindings = source_bindings(kernel, version);
  std::set<std::string> headers;
  std::vector<std::string> texts;
  std::vector<std::string> kernels;
  std::vector<int> row_axes;
  for (const plan::PassPlan& pass : kernel.plan.passes) {
    texts.push_back(pass_text(pass, version, headers));
    kernels.push_back(fmt::format("&pass_{}::kernel", plan::axis_names(pass)));
    row_axes.push_back(pass.row_axis);
  }
  bindings["scheme_headers"] = scheme_includes({headers.begin(), headers.end()});
  bindings["facts"] = output_facts(kernel.spec);
  bindings["pass_namespaces"] = fmt::format("{}", fmt::join(texts, "\n\n"));
  bindings["row_axes"] = fmt::format("{}", fmt::join(row_axes, ", "));
  bindings["pass_kernels"] = fmt::format("{}", fmt::join(kernels, ", "));
  bindings["minimum_arch"] = fmt::to_string(minimum_arch(kernel.plan.engine));
  return {kernel.spec.name + ".cu", render_part("passes.cu.in", bindings) + "\n"};
}

EmittedFile emit_source(const Kernel& kernel, const std::string& version) {
  if (!kernel.plan.passes.empty()) return emit_passes(kernel, version);
  render::Bindings bindings = source_bindings(kernel, version);
  const SchemeText text = scheme_text(kernel);
  bind_kernel(kernel, text, bindings);
  std::vector<std::string> schemes{std::string(plan::scheme_name(kernel.plan.scheme))};
  schemes.insert(schemes.end(), text.more_schemes.begin(), text.more_schemes.end());
  bindings["scheme_headers"] = scheme_includes(schemes);
  return {kernel.spec.name + ".cu", render_part("kernel.cu.in", bindings) + "\n"};
}

}  // namespace

std::string inner_kernel(const InnerKernel& inner, const std::string& version,
                         std::set<std::string>& schemes) {
  const pack::PackedKernel packed = pack::pack(inner.plan);
  const Kernel kernel{inner.spec, inner.plan, packed};
  render::Bindings bindings = source_bindings(kernel, version);
  const SchemeText text = scheme_text(kernel);
  schemes.emplace(plan::scheme_name(inner.plan.scheme));
  schemes.insert(text.more_schemes.begin(), text.more_schemes.end());
  for (const char* of_file : {"device_abi", "report", "summary", "source"}) bindings.erase(of_file);
  bind_kernel(kernel, text, bindings);
  bindings["title"] = inner.title;
  bindings["namespace"] = inner.name;
  return render_part("inner_kernel.cu.in", bindings);
}

std::vector<EmittedFile> emit(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                              const pack::PackedKernel& packed, const std::string& version) {
  return {emit_source({spec, plan, packed}, version), emit_header(spec, plan, version)};
}

}  // namespace spidergen::emit
