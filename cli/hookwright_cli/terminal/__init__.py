"""What people and scripts see: tables, documents, progress, colours only on a terminal."""
