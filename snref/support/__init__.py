"""Small helpers that know nothing of nets and plans."""
