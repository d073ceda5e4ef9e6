//! A simulated disk that crashes, tears, reorders and fails, from a seed.
