#include "reference/semantics.h"
