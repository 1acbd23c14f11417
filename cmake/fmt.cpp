// Compiles fmt for a wheel, once, from the implementation in its headers.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// Templates that fmt's other headers declare and that the compiled library must instantiate.
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API void buffer<char>::append(const char*, const char*);
template FMT_API auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace detail
FMT_END_NAMESPACE
