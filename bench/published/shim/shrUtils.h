#pragma once
#include "sdk_shim.h"
