// SPDX-License-Identifier: BSD-3-Clause
//
// The chip's link to other chips, as far as the ABI knows it: its time. Further kinds of atalla_copy_params.
//
// Which bytes pass the link, and to whom, is the driver's business; the device charges what they take. `rows` messages
// of `row_bytes` bytes follow each other, each waiting for the one before. No address is looked at, and executing such
// a copy does nothing. A message may have no bytes: it then costs the link's latency.
//
// ABI 1.2: a library of an earlier version refuses these kinds.
#ifndef ATALLA_LINK_H_
#define ATALLA_LINK_H_

#include "atalla.h"

#define ATALLA_ABI_MINOR_LINK 2u

enum {
  ATALLA_COPY_LINK_SEND = 4,      // reads DRAM
  ATALLA_COPY_LINK_RECEIVE = 5,   // writes DRAM
  ATALLA_COPY_LINK_EXCHANGE = 6,  // both at once: each message goes out while another comes in
};

#endif  // ATALLA_LINK_H_
