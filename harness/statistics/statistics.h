// Includes the statistics of a gate: tests with finite-sample bounds, their power, and the error
// ledger.
//
// Names of functions have the form operation, property, relation, bound. Error rates are totals of
// a test, not rates per draw. Every test has a second function that says, before any draw is made,
// which discrepancy the test will find. Every function is deterministic and thread-safe. A function
// that returns a p-value never throws for valid input; for invalid input it throws
// std::invalid_argument with the field, its value and its range.
#pragma once

#include "harness/statistics/bet_portfolio.h"          // bets on sets, at any number of draws
#include "harness/statistics/binomial.h"               // one bucket: exact
#include "harness/statistics/chi_squared.h"            // chi-squared, for explanation
#include "harness/statistics/combination.h"            // one verdict from many p-values
#include "harness/statistics/distribution_function.h"  // the DKWM bound, for any order of cells
#include "harness/statistics/e_process.h"              // Dirichlet bets, and rules for e-values
#include "harness/statistics/error_ledger.h"           // shares of the run's false alarm rate
#include "harness/statistics/exact_multinomial.h"      // small supports: exact
#include "harness/statistics/g_test.h"                 // G with a finite-sample bound
#include "harness/statistics/goodness_of_fit.h"        // tests of a table of counts: Pearson, G, TV
#include "harness/statistics/nights.h"                 // evidence over a sequence of runs
#include "harness/statistics/pit.h"                    // transforms draws to uniform values
#include "harness/statistics/pooling.h"                // cells that depend on the target alone
#include "harness/statistics/two_sample.h"             // compares two samples
