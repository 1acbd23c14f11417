#include "python/bindings/lent_call.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <exception>

#include "harness/plugin/float_state.h"

namespace fairdraw::python {

namespace nb = nanobind;

namespace {

// Returns "ValueError: ..." for a Python exception, without its traceback.
std::string text_of(const char* who, const nb::python_error& error) {
  const std::string name = nb::cast<std::string>(error.type().attr("__name__"));
  try {
    return fmt::format("{} raised {}: {}", who, name,
                       nb::cast<std::string>(nb::str(error.value())));
  } catch (const std::exception&) {  // this branch also handles an exception whose __str__ raises
    return fmt::format("{} raised {}", who, name);
  }
}

}  // namespace

LentView::LentView(const fairdraw_batch& batch, Arrays arrays, const Loan& loan)
    : object_(nb::cast(BatchView(batch, arrays, loan), nb::rv_policy::move)) {}

LentView::~LentView() { nb::inst_ptr<BatchView>(object_)->close(); }

std::string name_of_type(nb::handle object) {
  return nb::cast<std::string>(nb::handle(object.type()).attr("__name__"));
}

std::string guarded(const char* who, const std::function<std::string()>& work) {
  const unsigned before = harness::plugin::float_traps(harness::plugin::float_state());
  try {
    std::string refused = work();
    const std::string unmasked = harness::plugin::mask_new_traps(before);
    return unmasked.empty() ? refused : fmt::format("{} {}", who, unmasked);
  } catch (const nb::python_error& error) {
    harness::plugin::mask_new_traps(before);
    return text_of(who, error);
  }
}

std::string given_back(const char* who, const char* what, Loan& loan, std::string& retained,
                       std::string refused) {
  bool held = loan.still_held();
  if (held) {  // the array may be in an unreachable reference cycle
    nb::module_::import_("gc").attr("collect")();
    held = loan.still_held();
  }
  if (!held) return refused;
  retained = fmt::format(
      "{} kept an array of an earlier {}; they are lent for one call (copy what is to be kept)",
      who, what);
  return refused.empty() ? retained : refused;
}

}  // namespace fairdraw::python
