// The widget manager asks for MathJax 2's queue wherever a MathJax is; labels of controls hold no formulas, so nothing need happen.
addEventListener("DOMContentLoaded", () => { if (window.MathJax) window.MathJax.Hub ??= { Queue() {} }; });
