//! The main thread's loop: selects one event, hands it to the turn, carries out the effects.
