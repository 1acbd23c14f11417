// A plot of two axes as SVG: what all pictures of the page are drawn on.
//
// Colours, strokes and fonts are the page's style sheet's, so that one picture serves light and
// dark; a picture names what a shape is (class "observed", "outside", ...) and never how it looks.
// What tells one thing from another is shape as well as colour. Every picture has its content in
// words too, for those who hear the page.
//
// Numbers come from a file and may be anything: points that are not finite are left out, those
// beyond an axis lie on its end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fairdraw::reports::pictures {

struct Point {
  double x = 0, y = 0;
};

struct Axis {
  std::string label;
  double low = 0, high = 1;
  bool logarithmic = false;
  bool ticks = true;
};

/// An axis over all finite `values` (positive ones if logarithmic), and `least` wide (a factor if
/// logarithmic), so that a single value is in the middle of something.
Axis axis_over(std::string label, const std::vector<double>& values, bool logarithmic,
               double least);

/// Where an axis has its ticks: decades, or round numbers; `most` of them, about.
std::vector<double> ticks_of(const Axis& axis, double most);

/// The head of a picture of `width` x `height` user units, with its text alternatives; the caller
/// appends shapes and "</svg>".
std::string svg_head(std::string_view title, std::string_view description, double width,
                     double height);

inline constexpr double kLetter = 6.2;  ///< user units that a letter of a label takes, on average

/// At most `most` code points of a label, escaped; with an ellipsis where it is cut.
std::string label_text(std::string_view label, std::size_t most);

/// A number as short as a tick label.
std::string tick_text(double value);

/// A <title> element, which a pointer shows; empty for an empty text.
std::string tip_element(std::string_view tip);

class Plot {
 public:
  /// `title` heads the picture, `description` says in words what it shows. Any text: escaped here.
  Plot(std::string_view title, std::string_view description, Axis x, Axis y, double width = 360,
       double height = 220);

  /// The area between two lines over the same abscissas.
  void area(const std::vector<Point>& low, const std::vector<Point>& high, std::string_view kind);
  /// Points to the left or to the right of the plot are left out.
  void line(const std::vector<Point>& points, std::string_view kind);
  /// A line across the plot at `y`, with what it is at its end.
  void level(double y, std::string_view label, std::string_view kind);
  /// Strokes from the ordinate 0 to each point.
  void stems(const std::vector<Point>& points, std::string_view kind);
  /// Dots without tips: one path, where hundreds of them would be most of a page.
  void dots(const std::vector<Point>& points, std::string_view kind);
  void dot(Point at, std::string_view kind, std::string_view tip = "");
  /// A diamond: the shape of what lies outside of where it should.
  void diamond(Point at, std::string_view kind, std::string_view tip = "");

  std::string svg() const;

 private:
  double x_of(double value) const;
  double y_of(double value) const;
  std::string path_of(const std::vector<Point>& points, char first) const;
  std::string grid() const;

  Axis x_, y_;
  double width_, height_;
  std::string head_, shapes_;
};

}  // namespace fairdraw::reports::pictures
