//! Integration tests against a real Docker Engine.
