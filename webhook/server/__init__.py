"""The webhook server: AdmissionReviews over HTTPS in, decisions of the policies out."""
