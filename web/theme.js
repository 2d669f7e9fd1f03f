"use strict";
// Not a module, and not deferred: it sets the chosen theme before the first paint.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is forbidden: as the system is */ }
