//! Pod workers: one thread per pod, driven by a pure machine; and the image pull thread.
