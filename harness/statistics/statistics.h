// Sound statistics for a gate: tests with finite-sample bounds, their power, and the error ledger.
//
// Names have the form operation, property, relation, bound. Rates are totals, not per draw. Every
// test has a twin that says, before any draw is made, what the test will find. Everything is
// deterministic and thread-safe. A p-value function never throws for valid input; invalid input
// throws std::invalid_argument with the field, its value and its range.
#pragma once

#include "harness/statistics/bet_portfolio.h"          // directed bets: E, at any number of draws
#include "harness/statistics/binomial.h"               // one bucket: exact
#include "harness/statistics/chi_squared.h"            // tails and power, for explanation
#include "harness/statistics/combination.h"            // many p-values, one verdict
#include "harness/statistics/distribution_function.h"  // DKWM, in any order of the cells
#include "harness/statistics/e_process.h"              // Dirichlet bets, and rules for e-values
#include "harness/statistics/error_ledger.h"           // who may be wrong how often
#include "harness/statistics/exact_multinomial.h"      // small supports: exact
#include "harness/statistics/g_test.h"                 // fixed cells: G with a finite-sample bound
#include "harness/statistics/goodness_of_fit.h"        // a table of counts: Pearson, G, TV
#include "harness/statistics/nights.h"                 // evidence over a sequence of runs
#include "harness/statistics/pit.h"                    // draws from different rows
#include "harness/statistics/pooling.h"                // cells from the target alone
#include "harness/statistics/two_sample.h"             // two samples, one distribution?
