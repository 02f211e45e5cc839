// Parts of the page.

export const at = (id) => document.getElementById(id);
