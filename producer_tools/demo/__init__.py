"""The whole pipeline at work on one machine: real questions, real documents, a real model."""
