//! Docker's event stream: subscribe, then list; a full list after each reconnect. Events are hints.
